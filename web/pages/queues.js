import { html, useMemo } from "../lib/html.js";
import { change, href } from "../lib/url.js";
import { Act, Badge, Failure, Loading, Phase, Table, ask, attempt } from "../lib/ui.js";
import { count, percent, seconds_since, short_count, span } from "../lib/format.js";
import { post, segment } from "../lib/api.js";
import * as act from "./actions.js";

const numbers = (label, name, tone) => ({
  title: label,
  right: true,
  sort: (q) => q[name],
  cell: (q) => html`<span class=${q[name] ? tone : "dim"} title=${count(q[name])}>${short_count(q[name])}</span>`,
});

export function Queues({ url, shared, may }) {
  const { queues, failure, again } = shared;
  const text = (url.filter ?? "").toLowerCase();
  const rows = useMemo(() => (queues ?? []).filter((q) => !text || q.name.toLowerCase().includes(text) || q.phase.includes(text) || q.owner.toLowerCase().includes(text)), [queues, text]);
  if (!queues) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const on_all = async (verb) => {
    const hit = rows.filter((q) => (verb === "pause" ? q.phase === "running" : q.phase === "paused") && q.type !== "dummy");
    const answer = await ask({
      title: `${verb === "pause" ? "Pause" : "Resume"} ${hit.length} queues`,
      text: `Exactly the queues shown${text ? ` for “${url.filter}”` : ""}: ${hit.map((q) => q.name).slice(0, 20).join(", ")}${hit.length > 20 ? " …" : ""}`,
      action: verb === "pause" ? "Pause them" : "Resume them",
      danger: verb === "pause",
    });
    if (!answer) return;
    await attempt(() => Promise.all(hit.map((q) => post(`/v1/queues/${segment(q.name)}/${verb}`, {}))), `${hit.length} queues ${verb === "pause" ? "are paused" : "go on"}`);
    again();
  };
  return html`
    <div class="bar">
      <input type="search" placeholder="Filter by name, phase, owner  ( / )" data-search value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} aria-label="filter" />
      <span class="dim">${rows.length} of ${queues.length}</span>
      <span class="fill"></span>
      <${Act} may=${may.admin} disabled=${!rows.some((q) => q.phase === "running")} onClick=${() => on_all("pause")} danger>Pause these<//>
      <${Act} may=${may.admin} disabled=${!rows.some((q) => q.phase === "paused")} onClick=${() => on_all("resume")}>Resume these<//>
    </div>
    <${Failure} failure=${failure} />
    <${Table}
      rows=${rows}
      key_of=${(q) => q.name}
      link_of=${(q) => href({ page: "queue", queue: q.name })}
      sort_by=${url.sort}
      empty=${queues.length ? "No queue matches the filter." : html`There is no queue yet. Push a job and it is there: <code>caravan push mail '{"to":"ann"}'</code>`}
      columns=${[
        { title: "Queue", sort: (q) => q.name, cell: (q) => html`<b>${q.name}</b>` },
        { title: "State", sort: (q) => q.phase, cell: (q) => html`<${Phase} queue=${q} />` },
        numbers("Waiting", "waiting", ""),
        numbers("Running", "running", "good-text"),
        { ...numbers("Delayed", "delayed", "warm-text"), narrow_hide: true },
        numbers("Dead", "dead", "bad-text"),
        { ...numbers("Handled", "handled", ""), narrow_hide: true },
        { title: "Errors", right: true, narrow_hide: true, sort: (q) => q.failed / Math.max(1, q.failed + q.handled), cell: (q) => html`<span class="dim" title=${`${count(q.failed)} attempts failed`}>${percent(q.failed, q.failed + q.handled)}</span>` },
        { title: "Oldest", right: true, sort: (q) => seconds_since(q.oldest_waiting) ?? -1, cell: (q) => (q.oldest_waiting ? span(seconds_since(q.oldest_waiting)) : html`<span class="dim">–</span>`) },
        { title: "Workers", right: true, narrow_hide: true, sort: (q) => q.workers, cell: (q) => (q.handler ? html`<span title=${q.handler}>${q.active}/${q.workers}${q.max_workers > 0 ? html`<span class="dim"> of ${q.max_workers}</span>` : ""}</span>` : html`<span class="dim">none here</span>`) },
        { title: "Type", narrow_hide: true, sort: (q) => q.type, cell: (q) => html`${q.type}${q.unique ? html` <${Badge} tone="soft">unique<//>` : null}` },
        { title: "Owner", narrow_hide: true, sort: (q) => q.owner, cell: (q) => q.owner },
        {
          title: "",
          cell: (q) => html`<span class="row-actions">
            ${q.phase === "paused" || q.phase === "draining"
              ? html`<${Act} may=${may.admin} onClick=${then_do(() => act.resume(q), again)}>Resume<//>`
              : html`<${Act} may=${may.admin} disabled=${q.type === "dummy"} onClick=${then_do(() => act.pause(q), again)}>Pause<//>`}
          </span>`,
        },
      ]}
    />`;
}

const then_do = (work, again) => async () => (await work()) && again();

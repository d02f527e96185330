import { html } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { change, href } from "../lib/url.js";
import { post, segment } from "../lib/api.js";
import { Act, Badge, Failure, Loading, Table, Time, ask, attempt } from "../lib/ui.js";

const tones = { run: "good", running: "good", quiet: "warm", stopping: "warm" };

export function Workers({ url, may }) {
  const [answer, failure, again] = use_get("/v1/workers");
  if (!answer) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const text = (url.filter ?? "").toLowerCase();
  const rows = (answer.workers ?? []).filter((w) => !text || JSON.stringify(w).toLowerCase().includes(text));
  const tell = async (w, verb) => {
    const ok = verb === "quiet" || (await ask({ title: `Stop ${w.name}`, text: "It finishes what it has, or hands it back, and ends.", action: "Stop", danger: true }));
    if (ok && (await attempt(() => post(`/v1/workers/${segment(w.id ?? w.name)}/${verb}`, {}), `${w.name}: ${verb}`))) again();
  };
  return html`
    <div class="bar"><input type="search" data-search placeholder="Filter  ( / )" aria-label="filter" value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} /><span class="dim">${rows.length} of ${answer.workers?.length ?? 0}</span></div>
    <${Failure} failure=${failure} />
    <${Table} rows=${rows} key_of=${(w) => `${w.node} ${w.queue} ${w.kind} ${w.name}`} sort_by=${url.sort}
      empty=${html`Nobody works. Set <code>HANDLER</code> in <code>[queue.NAME]</code>, or start a worker: <code>caravan worker --queue mail --handler exec:…</code>`}
      columns=${[
        { title: "Worker", sort: (w) => w.name ?? "", cell: (w) => html`<b>${w.name || w.node}</b>` },
        { title: "Kind", sort: (w) => w.kind ?? "", cell: (w) => w.kind },
        { title: "Queue", sort: (w) => w.queue ?? "", cell: (w) => html`<a href=${href({ page: "queue", queue: w.queue })}>${w.queue}</a>` },
        { title: "State", cell: (w) => html`<${Badge} tone=${tones[w.state] ?? ""}>${w.state ?? "–"}<//>` },
        { title: "Busy", right: true, sort: (w) => w.busy ?? 0, cell: (w) => html`${w.busy ?? 0}/${w.size ?? "–"} <progress class="busy" max=${w.size || 1} value=${w.busy ?? 0}></progress>` },
        { title: "Node", narrow_hide: true, sort: (w) => w.node ?? "", cell: (w) => w.node },
        { title: "Process", narrow_hide: true, cell: (w) => w.process ?? w.address ?? "–" },
        { title: "Version", narrow_hide: true, cell: (w) => w.version ?? "–" },
        { title: "Started", cell: (w) => html`<${Time} at=${w.started} />` },
        { title: "Beat", cell: (w) => html`<${Time} at=${w.last_beat ?? w.seen} />` },
        { title: "", cell: (w) => (w.kind === "worker" || w.kind === "remote" ? html`<span class="row-actions"><${Act} may=${may.admin} onClick=${() => tell(w, "quiet")}>Quiet<//><${Act} may=${may.admin} danger onClick=${() => tell(w, "stop")}>Stop…<//></span>` : null) },
      ]} />`;
}

import { html } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { change, href } from "../lib/url.js";
import { post, segment } from "../lib/api.js";
import { Act, Badge, Failure, Loading, Table, Time, ask, attempt } from "../lib/ui.js";

const tones = { run: "good", waiting: "good", quiet: "warm", stopping: "warm", silent: "bad" };

export function Workers({ url, may, has, shared }) {
  const [answer, failure, again] = use_get("/v1/workers");
  if (!answer) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const text = (url.filter ?? "").toLowerCase();
  const rows = (answer.workers ?? []).filter((w) => !text || JSON.stringify(w).toLowerCase().includes(text));
  const tell = async (w, verb, words) => {
    if (verb === "stop" && !(await ask({ title: `Stop ${w.name}`, text: "It finishes what it has, or hands it back, and ends.", action: "Stop", danger: true }))) return;
    if (await attempt(() => post(`/v1/workers/${segment(w.name)}/${verb}`, {}), `${w.name} ${words}`)) again();
  };
  const scale = async (w) => {
    const v = await ask({ title: `Scale ${w.name}`, text: "How many jobs it may have in hand at once.", fields: [{ name: "n", label: "Concurrency", value: String(w.size ?? 1) }], action: "Set" });
    if (v && (await attempt(() => post(`/v1/workers/${segment(w.name)}/scale`, { concurrency: Number(v.n) }), `${w.name} has ${v.n} slots`))) again();
  };
  const queues_of = (w) => w.queues ?? (w.queue ? [w.queue] : []);
  const process_of = (w) => (w.host ? `${w.host}:${w.pid}` : w.pid ? `process ${w.pid}` : (w.from ?? "–"));
  return html`
    <div class="bar"><input type="search" data-search placeholder="Filter  ( / )" aria-label="filter" value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} /><span class="dim">${rows.length} of ${answer.workers?.length ?? 0}${has.cluster ? `, as ${shared.node?.name ?? "this node"} knows them; others are on the pages of their nodes` : ""}</span></div>
    <${Failure} failure=${failure} />
    <${Table} rows=${rows} key_of=${(w) => `${w.kind} ${w.name} ${queues_of(w)} ${w.from ?? ""}`} sort_by=${url.sort}
      empty=${html`Nobody works. Set <code>HANDLER</code> in <code>[queue.NAME]</code>, or start a worker: <code>caravan worker --queue mail --handler exec:…</code>`}
      columns=${[
        { title: "Worker", sort: (w) => w.name ?? "", cell: (w) => html`<b class="worker-name" title=${w.name || w.node}>${w.name || w.node}</b>` },
        { title: "Kind", sort: (w) => w.kind ?? "", cell: (w) => w.kind },
        { title: "Queue", sort: (w) => queues_of(w).join(), cell: (w) => queues_of(w).map((q, i) => html`${i ? ", " : ""}<a href=${href({ page: "queue", queue: q })}>${q}</a>`) },
        { title: "State", cell: (w) => html`<${Badge} tone=${tones[w.state] ?? ""}>${w.state ?? "–"}<//>${w.wanted && w.wanted !== w.state && w.wanted !== "run" ? html` <span class="dim">→ ${w.wanted}</span>` : ""}` },
        { title: "Busy", right: true, sort: (w) => w.busy ?? 0, cell: (w) => (w.busy === null ? html`<span class="dim">–</span>` : html`${w.busy ?? 0}${w.size > 0 ? html`/${w.size} <progress class="busy" max=${w.size} value=${w.busy ?? 0}></progress>` : ""}`) },
        { title: "In hand", right: true, narrow_hide: true, cell: (w) => w.jobs ?? html`<span class="dim">–</span>` },
        { title: "Node", narrow_hide: true, mid_hide: true, sort: (w) => w.node ?? "", cell: (w) => w.node },
        { title: "Process", narrow_hide: true, cell: process_of },
        { title: "Version", narrow_hide: true, mid_hide: true, cell: (w) => w.version ?? "–" },
        { title: "Started", narrow_hide: true, mid_hide: true, cell: (w) => html`<${Time} at=${w.started} />` },
        { title: "Beat", cell: (w) => html`<${Time} at=${w.last_seen} />` },
        {
          title: "",
          cell: (w) =>
            w.kind === "worker" &&
            html`<span class="row-actions">
              ${w.wanted === "quiet" ? html`<${Act} may=${may.admin} onClick=${() => tell(w, "run", "claims again")}>Run<//>` : html`<${Act} may=${may.admin} onClick=${() => tell(w, "quiet", "claims nothing more")}>Quiet<//>`}
              <${Act} may=${may.admin} onClick=${() => scale(w)}>Scale…<//><${Act} may=${may.admin} danger onClick=${() => tell(w, "stop", "stops")}>Stop…<//>
            </span>`,
        },
      ]} />`;
}

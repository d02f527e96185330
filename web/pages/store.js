import { html } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { href } from "../lib/url.js";
import { Badge, Facts, Failure, Loading, Table, Time } from "../lib/ui.js";
import { count } from "../lib/format.js";

export function Store({ url, shared }) {
  const [s, failure, again] = use_get("/v1/store");
  if (!s) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const { ready, node } = shared;
  return html`
    ${ready?.reasons?.map((r) => html`<div class="failure" role="alert">${r}</div>`)}
    <${Facts} of=${[
      ["Node", s.node],
      ["Version", node?.version],
      ["Up since", html`<${Time} at=${node?.started} />`],
      ["Data folder", html`<code>${s.data_dir}</code>`],
      ["Ready", ready?.ready ? html`<${Badge} tone="good">yes<//>` : html`<${Badge} tone="bad">no<//>`],
      ["HTTP door", node?.overload ? (node.overload.overloaded ? html`<${Badge} tone="bad">overloaded<//>` : `${count(node.overload.admitted)} let in, ${count(node.overload.refused_full + node.overload.refused_late)} turned away`) : html`<span class="dim">off</span>`],
    ]} />
    ${s.shared.length > 0 &&
    html`<section><h2>Shared stores</h2>
      <${Table} rows=${s.shared} key_of=${(x) => x.where} columns=${[
        { title: "Store", cell: (x) => html`<code>${x.where}</code>` },
        { title: "State", cell: (x) => (x.round_trip_ms === null ? html`<${Badge} tone="bad">does not answer<//>` : html`<${Badge} tone=${x.round_trip_ms > 20 ? "warm" : "good"}>answers<//>`) },
        { title: "Round trip", right: true, cell: (x) => (x.round_trip_ms === null ? "–" : html`<span class=${x.round_trip_ms > 20 ? "warm-text" : ""}>${x.round_trip_ms.toFixed(2)} ms</span>`) },
      ]} /></section>`}
    <section><h2>Where each queue lives</h2>
      <${Table} rows=${s.queues} key_of=${(q) => q.name} link_of=${(q) => href({ page: "queue", queue: q.name })} sort_by=${url.sort} empty="There is no queue yet."
        columns=${[
          { title: "Queue", sort: (q) => q.name, cell: (q) => q.name },
          { title: "Type", sort: (q) => q.type, cell: (q) => q.type },
          { title: "Survives a restart", cell: (q) => (q.durable ? "yes" : html`<span class="warm-text">no</span>`) },
          { title: "State", cell: (q) => (q.trouble ? html`<${Badge} tone="bad" title=${q.trouble}>trouble<//>` : html`<${Badge} tone="good">works<//>`) },
          { title: "", wide: true, cell: (q) => html`<span class="bad-text">${q.trouble}</span>` },
        ]} /></section>`;
}

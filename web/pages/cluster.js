import { html } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { href } from "../lib/url.js";
import { post } from "../lib/api.js";
import { Act, Badge, Failure, Loading, Table, Time, ask, attempt } from "../lib/ui.js";
import { count, span } from "../lib/format.js";

export function Cluster({ url, may, shared }) {
  const [c, failure, again] = use_get("/v1/cluster");
  const [m] = use_get("/v1/cluster/moves");
  if (!c) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const drain = async (n) => {
    const ok = await ask({ title: `Drain ${n.name}`, text: `It takes over no more queues and hands its ${n.owns.length === 1 ? "queue" : `${n.owns.length} queues`} to the others.`, type: n.name, action: "Drain", danger: true });
    if (ok && (await attempt(() => post("/v1/cluster/drain", {}), `${n.name} hands over its queues`))) again();
  };
  const cordon = async (n) => {
    const verb = n.cordoned ? "uncordon" : "cordon";
    if (await attempt(() => post(`/v1/cluster/${verb}`, {}), `${n.name} ${n.cordoned ? "takes over queues again" : "takes over no more queues"}`)) again();
  };
  const under_way = (shared.queues ?? []).filter((q) => q.phase === "moving").map((q) => ({ queue: q.name, from: q.owner, to: "…" }));
  const moves = [...under_way, ...[...(m?.moves ?? [])].sort((x, y) => (x.at < y.at ? 1 : -1))];
  const page_of = (n) => (n.http && n.alive ? `${location.protocol}//${n.http}/ui/?page=cluster` : null);
  return html`<${Failure} failure=${failure} />
    ${c.without_owner?.length > 0 && html`<div class="failure">Without an owner: ${c.without_owner.join(", ")}</div>`}
    <${Table} rows=${c.nodes} key_of=${(n) => n.name} sort_by=${url.sort} empty="No node has told of itself."
      columns=${[
        { title: "Node", sort: (n) => n.name, cell: (n) => html`<b>${n.name}</b>${n.self ? html` <span class="dim">(this one)</span>` : ""}` },
        { title: "State", cell: (n) => html`<${Badge} tone=${!n.alive ? "bad" : n.cordoned ? "warm" : "good"}>${!n.alive ? `silent for ${span(n.silent_ms / 1000)}` : n.cordoned ? "cordoned" : "up"}<//>` },
        { title: "Owns", right: true, sort: (n) => n.owns?.length ?? 0, cell: (n) => n.owns?.length ?? 0 },
        { title: "Queues", wide: true, cell: (n) => (n.owns ?? []).map((q, i) => html`${i ? ", " : ""}<a href=${href({ page: "queue", queue: q })}>${q}</a>`) },
        { title: "Up since", cell: (n) => html`<${Time} at=${n.started} />` },
        { title: "Version", narrow_hide: true, cell: (n) => n.version },
        { title: "For nodes", narrow_hide: true, mid_hide: true, cell: (n) => html`<code>${n.address}</code>` },
        { title: "HTTP", narrow_hide: true, cell: (n) => html`<code>${n.http}</code>` },
        { title: "", cell: (n) => (n.self ? html`<span class="row-actions"><${Act} may=${may.admin} onClick=${() => cordon(n)}>${n.cordoned ? "Uncordon" : "Cordon"}<//><${Act} may=${may.admin} danger onClick=${() => drain(n)}>Drain…<//></span>` : (page_of(n) ? html`<a href=${page_of(n)} title="cordon and drain it there">its dashboard</a>` : "")) },
      ]} />
    <section><div class="section-head"><h2>Moves</h2><span class="dim">of queues in Redis, and of those that this node handed over</span></div>
      <${Table} rows=${moves} key_of=${(x) => `${x.at} ${x.queue}`} empty="No queue has moved yet."
        columns=${[
          { title: "When", cell: (x) => (x.at ? html`<${Time} at=${x.at} />` : "now") },
          { title: "Queue", cell: (x) => html`<a href=${href({ page: "queue", queue: x.queue })}>${x.queue}</a>` },
          { title: "From", cell: (x) => x.from },
          { title: "To", cell: (x) => x.to },
          { title: "State", cell: (x) => html`<${Badge} tone=${!x.at ? "plain" : x.moved === false ? "bad" : "good"} title=${x.why ?? ""}>${!x.at ? "moving" : x.moved === false ? "stayed" : "moved"}<//>${x.moved === false && x.why ? html` <span class="bad-text">${x.why}</span>` : ""}` },
          { title: "Jobs", right: true, narrow_hide: true, cell: (x) => (x.items === undefined ? "–" : count(x.items)) },
          { title: "Took", right: true, cell: (x) => (x.ms === undefined ? "–" : `${count(x.ms)} ms`) },
          { title: "Stood still", right: true, narrow_hide: true, cell: (x) => (x.frozen_ms === undefined ? "–" : `${count(x.frozen_ms)} ms`) },
          { title: "By", narrow_hide: true, cell: (x) => x.by },
        ]} /></section>`;
}

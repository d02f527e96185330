import { html } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { call, post, segment } from "../lib/api.js";
import { Act, Badge, Failure, Loading, Table, ask, attempt } from "../lib/ui.js";
import { count, percent, span } from "../lib/format.js";
import { href } from "../lib/url.js";

export function Limits({ url, may }) {
  const [answer, failure, again] = use_get("/v1/limits");
  if (!answer) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const set = async (l) => {
    const v = await ask({ title: `Rate of ${l.name}`, text: "On this node, until it restarts.", fields: [{ name: "rate", label: "How many", value: String(l.rate) }, { name: "per", label: "Per", value: `${l.per_ms}ms` }, ...(l.burst === null ? [] : [{ name: "burst", label: "Burst", value: String(l.burst) }])], action: "Set" });
    if (!v) return;
    const body = { rate: Number(v.rate), per: v.per };
    if (v.burst !== undefined) body.burst = Number(v.burst);
    if (await attempt(() => call("PUT", `/v1/limits/${segment(l.name)}/rate`, body), `${l.name} is set`)) again();
  };
  const reset = async (l) => {
    const v = await ask({ title: `Reset a key of ${l.name}`, text: "It may take again as one that was never seen.", fields: [{ name: "key", label: "Key" }], action: "Reset", danger: true });
    if (v?.key && (await attempt(() => post(`/v1/limits/${segment(l.name)}/reset`, { key: v.key }), `${v.key} begins anew`))) again();
  };
  return html`
    <${Failure} failure=${failure} />
    <${Table} rows=${answer.limits} key_of=${(l) => l.name} sort_by=${url.sort} link_of=${may.admin ? (l) => href({ page: "limits", limit: l.name }) : null}
      empty=${html`No limit is set up. A section <code>[limit.NAME]</code> in the configuration makes one.`}
      columns=${[
        { title: "Limit", sort: (l) => l.name, cell: (l) => html`<b>${l.name}</b>` },
        { title: "Rate", cell: (l) => html`${count(l.rate)} per ${span(l.per_ms / 1000)}${l.burst !== null ? html` <span class="dim">burst ${count(l.burst)}</span>` : ""}` },
        { title: "Kind", narrow_hide: true, cell: (l) => l.kind },
        { title: "Store", cell: (l) => html`${l.store} ${l.down ? html`<${Badge} tone="bad" title=${`WHEN_DOWN = ${l.when_down}`}>down<//>` : null}` },
        { title: "Allowed", right: true, sort: (l) => l.taken, cell: (l) => count(l.taken) },
        { title: "Refused", right: true, sort: (l) => l.refused, cell: (l) => html`<span class=${l.refused ? "warm-text" : "dim"}>${count(l.refused)}</span>` },
        { title: "Refused %", right: true, narrow_hide: true, cell: (l) => percent(l.refused, l.refused + l.taken) },
        { title: "", cell: (l) => html`<span class="row-actions"><${Act} may=${may.admin} onClick=${() => set(l)}>Set…<//><${Act} may=${may.admin} danger onClick=${() => reset(l)}>Reset key…<//></span>` },
      ]} />
    ${url.limit && may.admin && html`<${Top} name=${url.limit} />`}`;
}

function Top({ name }) {
  const [l, failure] = use_get(`/v1/limits/${segment(name)}`);
  if (!l) return html`<${Failure} failure=${failure} />`;
  return html`<section><h2>Busiest keys of ${name}</h2>
    <${Table} rows=${l.top.slice(0, 20)} key_of=${(k) => k.key} empty="No key has taken anything yet." columns=${[{ title: "Key", cell: (k) => html`<code>${k.key}</code>` }, { title: "Allowed", right: true, cell: (k) => count(k.taken) }, { title: "Refused", right: true, cell: (k) => count(k.refused) }]} /></section>`;
}

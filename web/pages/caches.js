import { html } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { post, segment } from "../lib/api.js";
import { Act, Badge, Failure, Loading, Table, ask, attempt } from "../lib/ui.js";
import { bytes, count, percent, span } from "../lib/format.js";

export function Caches({ url, may }) {
  const [answer, failure, again] = use_get("/v1/caches");
  if (!answer) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const clear = async (c) => {
    const ok = await ask({ title: `Clear ${c.name}`, text: `Removes ${c.entries === null || c.entries === undefined ? "all" : count(c.entries)} values; they are loaded again when they are wanted.`, type: c.name, action: "Clear", danger: true });
    if (ok && (await attempt(() => post(`/v1/caches/${segment(c.name)}/clear`, {}), `${c.name} is empty`))) again();
  };
  return html`<${Failure} failure=${failure} />
    <${Table} rows=${answer.caches} key_of=${(c) => c.name} sort_by=${url.sort} empty="This node has no cache."
      columns=${[
        { title: "Cache", sort: (c) => c.name, cell: (c) => html`<b>${c.name}</b>` },
        { title: "State", cell: (c) => (c.trouble ? html`<${Badge} tone="bad" title=${c.trouble}>trouble<//>` : !c.enabled ? html`<${Badge} tone="soft">off<//>` : c.open ? html`<${Badge} tone="good">open<//>` : html`<${Badge} tone="soft">not used yet<//>`) },
        { title: "Engine", cell: (c) => c.engine ?? c.adapter },
        { title: "Values", right: true, sort: (c) => c.entries ?? 0, cell: (c) => count(c.entries) },
        { title: "Size", right: true, sort: (c) => c.bytes ?? 0, cell: (c) => bytes(c.bytes) },
        { title: "Hits", right: true, sort: (c) => c.hits ?? 0, cell: (c) => count(c.hits) },
        { title: "Hit %", right: true, cell: (c) => percent(c.hits ?? 0, (c.hits ?? 0) + (c.misses ?? 0)) },
        { title: "Loads", right: true, narrow_hide: true, cell: (c) => count(c.loads) },
        { title: "Failures", right: true, narrow_hide: true, cell: (c) => html`<span class=${c.failures ? "bad-text" : "dim"}>${count(c.failures)}</span>` },
        { title: "Lifetime", right: true, narrow_hide: true, cell: (c) => (c.item_ttl_ms > 0 ? span(c.item_ttl_ms / 1000) : "no caching") },
        { title: "", cell: (c) => html`<${Act} may=${may.admin} danger disabled=${!c.open} onClick=${() => clear(c)}>Clear…<//>` },
      ]} />`;
}

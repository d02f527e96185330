import { html } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { change } from "../lib/url.js";
import { post, segment } from "../lib/api.js";
import { Act, Failure, Loading, Table, Time, ask, attempt } from "../lib/ui.js";

export function Locks({ url, may }) {
  const [answer, failure, again] = use_get("/v1/locks?limit=1000");
  if (!answer) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const text = (url.filter ?? "").toLowerCase();
  const rows = answer.locks.filter((l) => !text || `${l.key} ${l.holder?.node} ${l.holder?.owner}`.toLowerCase().includes(text));
  const force = async (l) => {
    const ok = await ask({ title: `Take ${l.key} away`, text: `${l.holder?.owner || l.holder?.node || "Its holder"} loses it at once and may still believe that it has it; the next of ${l.waiting} waiters gets it. Whoever it writes to should refuse its token.`, type: l.key, action: "Release by force", danger: true });
    if (ok && (await attempt(() => post(`/v1/locks/${segment(l.key)}/release`, { force: true }), `${l.key} is free`))) again();
  };
  return html`
    <div class="bar"><input type="search" data-search placeholder="Filter by key or holder  ( / )" aria-label="filter" value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} /><span class="dim">${rows.length} held</span></div>
    <${Failure} failure=${failure} />
    <${Table} rows=${rows} key_of=${(l) => l.key} sort_by=${url.sort} empty=${text ? "No lock matches." : "Nobody holds a lock now."}
      columns=${[
        { title: "Lock", sort: (l) => l.key, cell: (l) => html`<code>${l.key}</code>` },
        { title: "Holder", sort: (l) => l.holder?.owner ?? "", cell: (l) => html`${l.holder?.owner || html`<span class="dim">–</span>`}` },
        { title: "Node", narrow_hide: true, sort: (l) => l.holder?.node ?? "", cell: (l) => l.holder?.node || html`<span class="dim">not Caravan</span>` },
        { title: "Held for", cell: (l) => html`<${Time} at=${l.holder?.since} />` },
        { title: "Ends in", right: true, cell: (l) => l.remaining ?? html`<span class="dim">when released</span>` },
        { title: "Token", right: true, narrow_hide: true, cell: (l) => html`<code>${l.token}</code>` },
        { title: "Waiters", right: true, sort: (l) => l.waiting, cell: (l) => html`<span class=${l.waiting ? "warm-text" : "dim"}>${l.waiting}</span>` },
        { title: "In line", wide: true, narrow_hide: true, cell: (l) => (l.waiters ?? []).slice(0, 5).map((w) => w.owner || w.node).join(", ") + (l.waiting > 5 ? " …" : "") },
        { title: "", cell: (l) => html`<${Act} may=${may.admin} danger onClick=${() => force(l)}>Release…<//>` },
      ]} />`;
}

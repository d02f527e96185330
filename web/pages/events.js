import { html, useEffect, useState } from "../lib/html.js";
import { is_streaming, on_event, use_get } from "../lib/live.js";
import { change, href } from "../lib/url.js";
import { Badge, Empty, Failure, Loading, Table, Tabs, Time } from "../lib/ui.js";

const kept = 500;

export function Events({ url, may, has }) {
  const tab = url.tab ?? (has.events ? "tail" : "audit");
  return html`
    ${has.events && html`<${Tabs} current=${tab} all=${[["tail", "Live"], ["audit", "Who did what"]]} link=${(t) => href({ page: "events", tab: t })} />`}
    ${tab === "audit" ? html`<${Audit} url=${url} may=${may} />` : html`<${Tail} url=${url} />`}`;
}

function Tail({ url }) {
  const [recent, failure] = use_get("/v1/events/recent?limit=200", { every: 0 });
  const [live, set_live] = useState([]);
  useEffect(() => on_event((e) => set_live((all) => [{ ...(typeof e.data === "object" ? e.data : { body: e.data }), topic: e.topic, id: e.id }, ...all].slice(0, kept))), []);
  const text = (url.filter ?? "").toLowerCase();
  const seen = new Set();
  const id_of = (e) => String(e.id ?? `${e.at} ${e.topic} ${e.subject}`);
  const all = [...live, ...(recent?.events ?? [])]
    .filter((e) => !seen.has(id_of(e)) && seen.add(id_of(e)))
    .sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
  const rows = all.filter((e) => !text || JSON.stringify(e).toLowerCase().includes(text)).slice(0, kept);
  return html`
    <div class="bar"><input type="search" data-search placeholder="Filter by topic, subject, text  ( / )" aria-label="filter" value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} />
      <${Badge} tone=${is_streaming() ? "good" : "warm"}>${is_streaming() ? "live" : "not connected"}<//><span class="dim">${rows.length} shown</span></div>
    <${Failure} failure=${failure} />
    <${Table} rows=${rows} key_of=${id_of} empty="Nothing has happened yet. Push or pause something."
      columns=${[
        { title: "When", cell: (e) => html`<${Time} at=${e.at} />` },
        { title: "Topic", cell: (e) => html`<a href=${href({ ...url, filter: e.topic })}><code>${e.topic}</code></a>` },
        { title: "Subject", cell: (e) => e.subject ?? "" },
        { title: "Node", narrow_hide: true, cell: (e) => e.node ?? "" },
        { title: "What", wide: true, cell: (e) => html`<code class="payload">${JSON.stringify(e.body ?? {})}</code>` },
      ]} />`;
}

function Audit({ url, may }) {
  const [answer, failure, again] = use_get("/v1/audit?limit=500");
  if (!may.admin) return html`<${Empty}>Who did what is for tokens with the role admin.<//>`;
  if (!answer) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const text = (url.filter ?? "").toLowerCase();
  return html`
    <div class="bar"><input type="search" data-search placeholder="Filter  ( / )" aria-label="filter" value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} /></div>
    <${Table} rows=${answer.audit.filter((l) => !text || JSON.stringify(l).toLowerCase().includes(text))} key_of=${(l) => l.n} empty="Nobody has changed anything through the API."
      columns=${[
        { title: "When", cell: (l) => html`<${Time} at=${l.at} />` },
        { title: "Did", wide: true, cell: (l) => html`<code>${l.action}</code>` },
        { title: "Answer", cell: (l) => html`<${Badge} tone=${l.status < 300 ? "good" : l.status < 500 ? "warm" : "bad"}>${l.status}<//>` },
        { title: "From", cell: (l) => l.remote },
        { title: "Roles", narrow_hide: true, cell: (l) => l.roles },
      ]} />`;
}

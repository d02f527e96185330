import { html, useEffect, useRef, useState } from "../lib/html.js";
import { on_event, use_get, use_streaming, use_topics } from "../lib/live.js";
import { change, href } from "../lib/url.js";
import { Badge, Empty, Failure, Loading, Table, Tabs, Time } from "../lib/ui.js";
import { absolute, hour } from "../lib/format.js";

const kept = 500;

export function Events({ url, may, has }) {
  const tab = url.tab ?? (has.events ? "tail" : "audit");
  return html`
    ${has.events && html`<${Tabs} current=${tab} all=${[["tail", "Live"], ["audit", "Who did what"]]} link=${(t) => href({ page: "events", tab: t })} />`}
    ${tab === "audit" ? html`<${Audit} url=${url} may=${may} />` : html`<${Tail} url=${url} />`}`;
}

function Tail({ url }) {
  const each = url.of === "all";
  const [recent, failure] = use_get("/v1/events/recent?limit=200", { every: 0 });
  const [live, set_live] = useState([]);
  const [held, set_held] = useState(false);
  const streaming = use_streaming();
  use_topics(each ? "#" : null);
  const waiting = useRef([]);
  const hold = useRef(false);
  hold.current = held;
  useEffect(() => {
    // Shown a few times a second, however many come.
    let number = 0;
    const stop = on_event((e) => {
      if (e.topic === "connected") return;
      waiting.current.unshift(e.topic === "dropped" ? { ...e, id: `dropped ${++number}`, at: new Date().toISOString() } : e);
      waiting.current.length = Math.min(waiting.current.length, kept);
    });
    const timer = setInterval(() => {
      if (!waiting.current.length || hold.current) return;
      const some = waiting.current;
      waiting.current = [];
      set_live((all) => [...some, ...all].slice(0, kept));
    }, 250);
    return () => {
      stop();
      clearInterval(timer);
    };
  }, []);
  const text = (url.filter ?? "").toLowerCase();
  const seen = new Set();
  const all = [...live, ...(recent?.events ?? []).slice().reverse()].filter((e) => !seen.has(e.id) && seen.add(e.id));
  const rows = all.filter((e) => !text || JSON.stringify(e).toLowerCase().includes(text)).slice(0, kept);
  return html`
    <div class="bar"><input type="search" data-search placeholder="Filter by topic, subject, text  ( / )" aria-label="filter" value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} />
      <select aria-label="which events" value=${each ? "all" : ""} onChange=${(e) => change({ of: e.target.value })}>
        <option value="" selected=${!each}>What seldom happens</option><option value="all" selected=${each}>Each job and lock too</option>
      </select>
      <button class="small" aria-pressed=${held} onClick=${() => set_held(!held)}>${held ? "Go on" : "Hold"}</button>
      <${Badge} tone=${streaming && !held ? "good" : "warm"}>${held ? "held" : streaming ? "live" : "not connected"}<//><span class="dim">${rows.length} shown</span></div>
    <${Failure} failure=${failure} />
    <${Table} rows=${rows} key_of=${(e) => e.id} empty=${text ? "Nothing here matches." : "Nothing has happened yet. Pause a queue, and it is told here."}
      columns=${[
        { title: "When", cell: (e) => html`<time datetime=${e.at} title=${absolute(e.at)}>${hour(e.at)}</time>` },
        { title: "Topic", cell: (e) => (e.topic === "dropped" ? html`<${Badge} tone="warm">missing<//>` : html`<a href=${href({ ...url, filter: e.topic })}><span class=${tone_of(e.topic)}>${e.topic}</span></a>`) },
        { title: "Subject", cell: (e) => subject_of(e) },
        { title: "Node", narrow_hide: true, cell: (e) => e.node ?? "" },
        { title: "What", wide: true, cell: (e) => html`<${Body} e=${e} />` },
      ]} />`;
}

const tone_of = (topic) => (/\.(trouble|dead|lost|failed|node_down)$/.test(topic) ? "bad-text" : /\.(recovered|node_up|resumed|finished)$/.test(topic) ? "good-text" : /\.(paused|draining|stopped|forced|missed|cordoned|purged)$/.test(topic) ? "warm-text" : "");

function subject_of(e) {
  const page = { queue: ["queue", "queue"], job: ["queue", "queue"], cron: ["schedules", "task"], limit: ["limits"], cache: ["caches"], cluster: ["cluster"], lock: ["locks"] }[(e.topic ?? "").split(".")[0]];
  if (!page || !e.subject) return e.subject ?? "";
  return html`<a href=${href({ page: page[0], ...(page[1] ? { [page[1]]: e.subject } : {}) })}>${e.subject}</a>`;
}

function Body({ e }) {
  if (e.topic === "dropped") return html`<span class="warm-text">${e.body?.dropped === null ? "Some events" : `${e.body?.dropped} events`}: ${e.body?.why ?? "they are not kept any more"}</span>`;
  const facts = Object.entries(e.body && typeof e.body === "object" ? e.body : { body: e.body }).filter(([, v]) => v !== null && v !== "");
  return html`<span class="body">${facts.map(([name, v]) => html`<span><span class="dim">${name.replace(/_ms$/, "")}</span> ${name === "job" ? html`<a href=${href({ page: "job", job: v })}><code>${v}</code></a>` : /_ms$/.test(name) && v > 1e12 ? html`<${Time} at=${new Date(v).toISOString()} />` : typeof v === "string" ? v : JSON.stringify(v)}</span>`)}</span>`;
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

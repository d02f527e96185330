import { html, useEffect, useRef, useState } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { change, href } from "../lib/url.js";
import { get, segment } from "../lib/api.js";
import { Act, Badge, Empty, Facts, Failure, Loading, Phase, Table, Tabs, Time, ask, note } from "../lib/ui.js";
import { count, percent, short_count } from "../lib/format.js";
import { Charts } from "./overview.js";
import * as act from "./actions.js";

const sizes = [50, 200, 1000];
const search_most = 20000;

const head_of = (job) => {
  const text = job.payload === undefined ? (job.payload_base64 ?? "") : JSON.stringify(job.payload);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
};
const matches = (job, text) =>
  !text || [job.id, job.key, job.last_error, head_of_all(job), ...(job.errors ?? []).map(String)].some((x) => x && x.toLowerCase().includes(text));
const head_of_all = (job) => (job.payload === undefined ? "" : JSON.stringify(job.payload));

/// Pages through a state and keeps what matches, up to a bound. Says how far it is.
async function search_all(queue, state, text, on_progress, signal) {
  const found = [];
  let after = null;
  let looked = 0;
  do {
    const page = await get(`/v1/queues/${segment(queue)}/jobs?state=${state}&limit=1000${after ? `&after=${encodeURIComponent(after)}` : ""}`, { signal });
    looked += page.jobs.length;
    found.push(...page.jobs.filter((j) => matches(j, text)));
    after = page.next;
    on_progress(looked, found.length);
  } while (after && looked < search_most && !signal.aborted);
  return { found, looked, more: Boolean(after) };
}

function Jobs({ queue, state, url, may, has, queue_info }) {
  const size = sizes.includes(Number(url.size)) ? Number(url.size) : 50;
  const text = (url.filter ?? "").toLowerCase();
  const path = `/v1/queues/${segment(queue)}/jobs?state=${state}&limit=${size}${url.after ? `&after=${encodeURIComponent(url.after)}` : ""}`;
  const [answer, failure, again] = use_get(path);
  const [chosen, set_chosen] = useState(new Set());
  const [search, set_search] = useState(null); // { looked, hits, found, more }
  const stop = useRef(null);
  useEffect(() => {
    set_chosen(new Set());
    set_search(null);
    stop.current?.abort();
  }, [queue, state, text]);

  if (failure && !answer) return html`<${Failure} failure=${failure} again=${again} />`;
  if (!answer) return html`<${Loading} />`;
  const source = search?.found ?? answer.jobs;
  const rows = source.filter((j) => matches(j, text));
  const hit = chosen.size ? rows.filter((j) => chosen.has(j.id)) : rows;

  const look_everywhere = async () => {
    stop.current?.abort();
    const mine = (stop.current = new AbortController());
    set_search({ looked: 0, hits: 0 });
    try {
      const done = await search_all(queue, state, text, (looked, hits) => !mine.signal.aborted && set_search((s) => ({ ...s, looked, hits })), mine.signal);
      if (!mine.signal.aborted) set_search(done);
    } catch (cause) {
      if (cause.name !== "AbortError") note(cause.message, "bad");
      set_search(null);
    }
  };
  const bulk = async (verb, words) => {
    const which = chosen.size ? "the jobs that are ticked" : text ? `the ${state} jobs shown for “${url.filter}”` : `the ${state} jobs shown`;
    const ok = await ask({
      title: `${words} ${count(hit.length)} ${hit.length === 1 ? "job" : "jobs"}`,
      text: `Exactly ${which}: ${hit.slice(0, 5).map((j) => j.id).join(", ")}${hit.length > 5 ? " …" : ""}${verb === "delete" ? ". This cannot be taken back." : ""}`,
      action: `${words} ${count(hit.length)}`,
      danger: verb !== "retry",
    });
    if (!ok) return;
    const done = await act.on_jobs(hit.map((j) => j.id), verb, () => {});
    const failed = done.failures.length;
    note(`${words}: ${count(done.done)} done${failed ? `, ${failed} not: ${done.failures[0].failure.message}` : ""}`, failed ? "bad" : "good");
    set_chosen(new Set());
    set_search(null);
    again();
  };
  const retryable = state === "dead" || state === "delayed";
  const changeable = state !== "running";
  const cancellable = has.life && ["waiting", "running", "delayed"].includes(state);
  const by_server = has.life && ["dead", "delayed", "done"].includes(state);
  const all_that_match = (verb) => async () => (await act.change_matching(queue, state, verb, url.filter ?? "")) && (set_chosen(new Set()), set_search(null), again());
  return html`
    <div class="bar">
      <input type="search" data-search placeholder="Search id, key, error, payload  ( / )" aria-label="search" value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} />
      ${text && answer.next && !search && html`<button class="small" onClick=${look_everywhere}>Search all of them</button>`}
      ${search && !search.found && html`<span class="dim">looked at ${count(search.looked)}, found ${count(search.hits)} … <button class="small" onClick=${() => { stop.current.abort(); set_search(null); }}>Stop</button></span>`}
      ${search?.found && html`<span class="dim">${count(rows.length)} of ${count(search.looked)} match${search.more ? ` (the first ${count(search_most)} were looked at)` : ""} <button class="small" onClick=${() => set_search(null)}>Back to the list</button></span>`}
      ${!search && html`<span class="dim">${count(rows.length)} shown${queue_info?.[state] !== undefined ? ` of ${count(queue_info[state])}` : ""}</span>`}
      <span class="fill"></span>
      ${retryable && html`<${Act} may=${may.admin} disabled=${!hit.length} onClick=${() => bulk("retry", state === "dead" ? "Replay" : "Run now")}>${state === "dead" ? "Replay" : "Run now"} ${count(hit.length)}<//>`}
      ${cancellable && html`<${Act} may=${may.admin} danger disabled=${!hit.length} onClick=${() => bulk("cancel", "Cancel")}>Cancel ${count(hit.length)}<//>`}
      ${changeable && html`<${Act} may=${may.admin} danger disabled=${!hit.length} onClick=${() => bulk("delete", "Delete")}>Delete ${count(hit.length)}<//>`}
      ${by_server && retryable && html`<${Act} may=${may.admin} onClick=${all_that_match("retry")}>${state === "dead" ? "Replay" : "Run now"} by filter…<//>`}
      ${by_server && html`<${Act} may=${may.admin} danger onClick=${all_that_match("delete")}>Delete by filter…<//>`}
    </div>
    <${Failure} failure=${failure} />
    <${Table}
      rows=${rows}
      key_of=${(j) => j.id}
      link_of=${(j) => href({ page: "job", job: j.id })}
      selection=${(changeable || cancellable) && may.admin ? { all: chosen, has: (k) => chosen.has(k), set: set_chosen } : null}
      empty=${text ? "Nothing here matches. Try “Search all of them”, or another word." : state === "done" ? "No finished job is kept. RETENTION of the queue, or retention of a push, keeps them." : `No ${state} jobs.`}
      columns=${[
        { title: "Job", cell: (j) => html`<code>${j.id}</code>` },
        { title: "Payload", wide: true, cell: (j) => html`<code class="payload">${head_of(j)}</code>` },
        { title: "Key", narrow_hide: true, cell: (j) => j.key || html`<span class="dim">–</span>` },
        { title: "Tries", right: true, cell: (j) => html`<span class=${j.attempts ? "warm-text" : "dim"}>${j.attempts}${j.max_attempts ? `/${j.max_attempts}` : ""}</span>` },
        rows.some((j) => j.priority) && { title: "Priority", right: true, cell: (j) => j.priority || html`<span class="dim">–</span>` },
        rows.some((j) => j.order_by) && { title: "Order key", narrow_hide: true, cell: (j) => j.order_by || html`<span class="dim">–</span>` },
        state === "done" && { title: "Ended", cell: (j) => html`<${Badge} tone=${j.state === "handled" ? "good" : "soft"}>${j.state}<//> <${Time} at=${j.finished_at} />` },
        state === "delayed" && { title: "Due", cell: (j) => html`<${Time} at=${j.due} />` },
        { title: "Pushed", cell: (j) => html`<${Time} at=${j.pushed_at} />` },
        state !== "waiting" && state !== "running" && { title: "Last error", wide: true, cell: (j) => html`<span class="bad-text" title=${j.last_error}>${(j.last_error ?? "").slice(0, 140)}</span>` },
      ].filter(Boolean)}
    />
    ${!search &&
    html`<div class="bar">
      ${url.after && html`<a href=${href({ ...url, after: "" })}>⇤ First page</a>`}
      ${answer.next && html`<a href=${href({ ...url, after: answer.next })}>Next page ⇥</a>`}
      <span class="fill"></span>
      <label class="dim">Rows <select value=${size} onChange=${(e) => change({ size: e.target.value, after: "" })}>${sizes.map((s) => html`<option value=${s} selected=${s === size}>${s}</option>`)}</select></label>
    </div>`}`;
}

export function Queue({ url, may, has }) {
  const name = url.queue ?? "";
  const [q, failure, again] = use_get(`/v1/queues/${segment(name)}`);
  if (failure?.status === 404) return html`<${Empty}>There is no queue “${name}” on this node. <a href=${href({ page: "queues" })}>All queues</a><//>`;
  if (!q) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const known = ["waiting", "running", "delayed", "dead", ...(has.life ? ["done"] : [])];
  const tab = [...known, "rates", "settings"].includes(url.state) ? url.state : q.dead && !q.waiting ? "dead" : "waiting";
  const then = (work) => async () => (await work()) && again();
  const can = may.admin && q.type !== "dummy";
  return html`
    <div class="title-row">
      <h1><a href=${href({ page: "queues" })}>Queues</a> / ${q.name}</h1>
      <${Phase} queue=${q} />
      <span class="fill"></span>
      <span class="row-actions">
        <${Act} may=${may.push} onClick=${then(() => act.push(q.name, "", has.life))}>Push…<//>
        ${q.phase === "paused" || q.phase === "draining"
          ? html`<${Act} may=${may.admin} onClick=${then(() => act.resume(q))}>Resume<//>`
          : html`<${Act} may=${may.admin} disabled=${!can} onClick=${then(() => act.pause(q))}>Pause…<//>`}
        <${Act} may=${may.admin} disabled=${!can || !q.handler} why=${q.handler ? "" : "there are no workers on this node"} onClick=${then(() => act.scale(q))}>Workers…<//>
        ${has.cluster && html`<${Act} may=${may.admin} disabled=${!can} onClick=${then(() => act.move(q))}>Move…<//>`}
        <${Act} may=${may.admin} disabled=${!can} danger onClick=${then(() => act.drain(q))}>Drain…<//>
        ${["waiting", "delayed", "dead"].includes(tab) && html`<${Act} may=${may.admin} disabled=${!can || !q[tab]} danger onClick=${then(() => act.purge(q, tab))}>Purge ${tab}…<//>`}
      </span>
    </div>
    ${q.trouble && html`<div class="failure" role="alert"><b>Its storage fails:</b> ${q.trouble}</div>`}
    ${q.phase === "paused" && html`<div class="hint">Paused by ${q.paused_by || "somebody"}, ${q.paused_until ? html`until <${Time} at=${q.paused_until} />` : "until it is resumed"}. Pushes are taken, nothing is handed out.</div>`}
    ${!q.handler && q.waiting > 0 && q.type !== "dummy" && html`<div class="hint">This node has no handler for it. Set <code>HANDLER</code> in <code>[queue.${q.name}]</code>, or let another node or worker take the jobs.</div>`}
    <${Facts} of=${[
      ["Owner", q.owner],
      ["Type", `${q.type}${q.unique ? ", unique" : ""}`],
      ["Handler", q.handler || html`<span class="dim">none here</span>`],
      ["Workers", q.handler ? `${q.active} busy, ${q.workers} started${q.max_workers > 0 ? `, at most ${q.max_workers}` : ""}` : "–"],
      ["Next in line", html`<${Time} at=${q.oldest_waiting} none="nobody waits" />`],
      ["Pushed", count(q.pushed)],
      ["Handled", count(q.handled)],
      ["Failed attempts", html`${count(q.failed)} <span class="dim">${percent(q.failed, q.failed + q.handled)}</span>`],
      ["Came again", count(q.redelivered)],
      ["Leases lost", count(q.leases_lost)],
    ]} />
    <${Tabs} current=${tab} link=${(s) => href({ page: "queue", queue: name, state: s })} all=${[...known.map((s) => [s, html`${s} <span class="tab-count">${q[s] === undefined ? "" : short_count(q[s])}</span>`]), ["rates"], ["settings"]]} />
    ${tab === "rates"
      ? html`<${Charts} queue=${name} span=${url.span} />`
      : tab === "settings"
        ? html`<pre class="json">${JSON.stringify(q, null, 2)}</pre>`
        : q.type === "dummy"
          ? html`<${Empty}>A queue of TYPE = dummy keeps no jobs: its handler runs inside each push.<//>`
          : html`<${Jobs} key=${`${name} ${tab}`} queue=${name} state=${tab} url=${url} may=${may} has=${has} queue_info=${q} />`}`;
}

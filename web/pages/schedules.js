import { html, useState } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { change, href } from "../lib/url.js";
import { post, segment } from "../lib/api.js";
import { Act, Badge, Facts, Failure, Loading, Table, Time, attempt, ask } from "../lib/ui.js";
import { count, relative, zone } from "../lib/format.js";

const tones = { running: "good", finished: "good", error: "bad", lost: "bad", cancelled: "warm" };

const do_task = (t, verb, words, again) => async () => {
  if (verb === "run" && !(await ask({ title: `Run ${t.name} now`, text: `${t.action}. It runs beside its schedule, also if it is paused.`, action: "Run" }))) return;
  if (await attempt(() => post(`/v1/cron/${segment(t.name)}/${verb}`, {}), `${t.name}: ${words}`)) again();
};

/// The next times of a schedule; of what is typed, too.
export function Preview({ spec, in_zone, count: n = 5 }) {
  const [p, failure] = use_get(`/v1/cron/preview?spec=${encodeURIComponent(spec)}${in_zone ? `&zone=${encodeURIComponent(in_zone)}` : ""}&count=${n}`, { every: 0 });
  if (failure) return html`<span class="bad-text">${failure.message}</span>`;
  if (!p) return html`<${Loading} />`;
  return html`<ol class="times">${p.next.map((o) => {
    const at = new Date(o.at);
    const utc = Number.isNaN(+at) ? "" : at.toISOString();
    return html`<li><span title=${utc ? `${utc} (UTC)` : ""}>${o.at}</span> <span class="dim">${utc ? relative(utc) : ""}</span>${o.clock_change ? html` <${Badge} tone="warm">${o.clock_change}<//>` : ""}</li>`;
  })}</ol>
  ${p.skipped.map((s) => html`<p class="warm-text">${s.wall} does not exist that day: the clocks jump at ${s.clocks_jump_at}.</p>`)}
  ${p.warning && html`<p class="warm-text">${p.warning}</p>`}
  <p class="dim">Zone ${p.zone}.</p>`;
}

export function Schedules({ url, may, shared }) {
  const [answer, failure, again] = use_get("/v1/cron");
  const [draft, set_draft] = useState("");
  if (url.task) return html`<${Task} url=${url} may=${may} />`;
  if (!answer) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const text = (url.filter ?? "").toLowerCase();
  const rows = answer.tasks.filter((t) => !text || `${t.name} ${t.description} ${t.action}`.toLowerCase().includes(text));
  return html`
    <div class="bar">
      <input type="search" data-search placeholder="Filter  ( / )" aria-label="filter" value=${url.filter ?? ""} onInput=${(e) => change({ filter: e.target.value })} />
      <span class="fill"></span>
      <form class="inline" onSubmit=${(e) => { e.preventDefault(); change({ try: draft }); }}>
        <input placeholder="Try a schedule: 30 2 * * mon-fri" aria-label="schedule to try" value=${draft} onInput=${(e) => set_draft(e.target.value)} />
        <button class="small" disabled=${!draft.trim()}>Preview</button>
      </form>
    </div>
    ${url.try && html`<section class="preview"><div class="section-head"><h2>Next times of <code>${url.try}</code></h2><button class="small" onClick=${() => change({ try: "" })}>Close</button></div><${Preview} key=${url.try} spec=${url.try} in_zone=${zone} /></section>`}
    <${Failure} failure=${failure} />
    <${Table} rows=${rows} key_of=${(t) => t.name} link_of=${(t) => href({ page: "schedules", task: t.name })} sort_by=${url.sort}
      empty="No task is set up. A section [cron.NAME] in the configuration makes one."
      columns=${[
        { title: "Task", sort: (t) => t.name, cell: (t) => html`<b>${t.name}</b>` },
        { title: "State", cell: (t) => (!t.enabled ? html`<${Badge} tone="soft">off<//>` : t.paused ? html`<${Badge} tone="warm" title=${`paused by ${t.paused_by}`}>paused<//>` : html`<${Badge} tone="good">on<//>`) },
        { title: "Schedule", cell: (t) => html`<code>${t.schedule}</code> <span class="dim">${t.zone}</span>` },
        { title: "Next", sort: (t) => t.next ?? "~", cell: (t) => html`<${Time} at=${t.enabled && !t.paused ? t.next : null} />` },
        { title: "Last", cell: (t) => (t.status ? html`<${Badge} tone=${tones[t.status] ?? ""} title=${t.previous?.message ?? ""}>${t.status}<//> <${Time} at=${t.running?.started ?? t.previous?.ended} />` : html`<span class="dim">never ran</span>`) },
        { title: "Runs", right: true, narrow_hide: true, sort: (t) => t.runs, cell: (t) => count(t.runs) },
        { title: "Failed", right: true, narrow_hide: true, sort: (t) => t.failures, cell: (t) => html`<span class=${t.failures ? "bad-text" : "dim"}>${count(t.failures)}</span>` },
        { title: "Missed", right: true, narrow_hide: true, cell: (t) => { const n = Object.values(t.missed ?? {}).reduce((a, b) => a + b, 0); return html`<span class=${n ? "warm-text" : "dim"} title=${Object.entries(t.missed ?? {}).map(([k, v]) => `${k}: ${v}`).join(", ")}>${n}</span>`; } },
        { title: "Does", wide: true, narrow_hide: true, cell: (t) => html`<span title=${t.description}>${t.action}</span>` },
        { title: "", cell: (t) => html`<span class="row-actions"><${Act} may=${may.admin} disabled=${t.status === "running"} onClick=${do_task(t, "run", "runs", again)}>Run<//>${t.paused ? html`<${Act} may=${may.admin} onClick=${do_task(t, "resume", "goes on", again)}>Resume<//>` : html`<${Act} may=${may.admin} onClick=${do_task(t, "pause", "is paused", again)}>Pause<//>`}</span>` },
      ]} />`;
}

function Task({ url, may }) {
  const [t, failure, again] = use_get(`/v1/cron/${segment(url.task)}`);
  const back = html`<a href=${href({ page: "schedules" })}>Schedules</a>`;
  if (!t) return failure ? html`<h1>${back} / ${url.task}</h1><${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  return html`
    <div class="title-row"><h1>${back} / ${t.name}</h1>
      ${t.paused && html`<${Badge} tone="warm">paused by ${t.paused_by}<//>`}
      <span class="fill"></span>
      <span class="row-actions">
        <${Act} may=${may.admin} disabled=${t.status === "running"} onClick=${do_task(t, "run", "runs", again)}>Run now…<//>
        <${Act} may=${may.admin} disabled=${!t.next} onClick=${do_task(t, "skip", "its next time is skipped", again)}>Skip next<//>
        ${t.paused ? html`<${Act} may=${may.admin} onClick=${do_task(t, "resume", "goes on", again)}>Resume<//>` : html`<${Act} may=${may.admin} onClick=${do_task(t, "pause", "is paused", again)}>Pause<//>`}
      </span></div>
    <p class="dim">${t.description}</p>
    <div class="columns"><div>
      <section><h2>History</h2>
        <${Table} rows=${t.history.slice(0, 100)} key_of=${(e) => `${e.what} ${e.occurrence} ${e.token}`} empty="It has not run since this node started."
          columns=${[
            { title: "For", cell: (e) => html`<${Time} at=${e.occurrence} />` },
            { title: "What", cell: (e) => html`<${Badge} tone=${tones[e.what] ?? "warm"}>${e.what}<//>${e.count > 1 ? ` × ${e.count}` : ""}` },
            { title: "Why", cell: (e) => `${e.trigger ?? ""}${e.who ? ` by ${e.who}` : ""}` },
            { title: "Took", right: true, cell: (e) => (e.started && e.ended ? `${((Date.parse(e.ended) - Date.parse(e.started)) / 1000).toFixed(2)}s` : "–") },
            { title: "Node", narrow_hide: true, cell: (e) => e.node },
            { title: "Message", wide: true, cell: (e) => e.message },
          ]} /></section>
    </div><div>
      <section><h2>Next 5 times</h2><${Preview} key=${t.next ?? ""} spec=${t.schedule} in_zone=${t.zone} /></section>
      <section><h2>Facts</h2><${Facts} of=${[["Schedule", html`<code>${t.schedule}</code>`], ["Zone", t.zone], ["Next", html`<${Time} at=${t.next} />`], ["Does", t.action], ["Runs", count(t.runs)], ["Failures", count(t.failures)], ...Object.entries(t.missed ?? {}).map(([k, v]) => [`Missed: ${k}`, count(v)])]} /></section>
    </div></div>`;
}

import { html } from "../lib/html.js";
import { use_get, use_live } from "../lib/live.js";
import { go, href } from "../lib/url.js";
import { get_job, segment } from "../lib/api.js";
import { Act, Badge, Empty, Facts, Failure, Loading, Time, note } from "../lib/ui.js";
import { clock_time, count, pretty, relative, span, zone } from "../lib/format.js";
import * as act from "./actions.js";

const tones = { waiting: "plain", running: "good", delayed: "warm", dead: "bad", handled: "good", done: "good", removed: "soft", purged: "soft", cancelled: "soft" };
const finished = new Set(["handled", "done", "removed", "purged", "cancelled"]);

/// Sentences, the decisive one first.
export function why_not_running(job, q) {
  const why = [];
  if (finished.has(job.state)) return [`It has ended: ${job.state}.`];
  if (job.state === "running")
    return job.cancel_asked ? ["It runs, and its handler was asked to stop. If it succeeds all the same it is handled, else cancelled."] : ["It runs: a worker has it under a lease. If the worker dies, it comes again."];
  if (job.state === "dead") {
    why.push(`It is dead: ${job.max_attempts && job.attempts >= job.max_attempts ? (job.max_attempts === 1 ? "its only attempt failed" : `all ${job.max_attempts} attempts failed`) : "its attempts are used up, or a handler rejected it"}. Nothing happens until somebody replays it.`);
    if (job.last_error) why.push(`The last attempt said: ${job.last_error}`);
    why.push("Mend the cause first, then replay it: it gets all its attempts again.");
    return why;
  }
  if (job.state === "delayed") why.push(job.attempts ? `It failed ${job.attempts} times and is tried again ${relative(job.due)}.` : `It was pushed with a delay and is due ${relative(job.due)}.`);
  if (job.order_by) why.push(`It waits its turn among the jobs with the order key “${job.order_by}”.`);
  if (job.priority < 0) why.push(`Its priority is ${job.priority}: all others go first.`);
  if (!q) return why;
  if (q.trouble) why.push(`The queue's storage fails: ${q.trouble}`);
  if (q.phase === "paused") why.push(`The queue is paused by ${q.paused_by || "somebody"} ${q.paused_until ? `until ${clock_time(q.paused_until)}` : "until it is resumed"}.`);
  else if (q.phase !== "running") why.push(`The queue is ${q.phase}.`);
  if (!q.handler && !q.running) why.push("No handler for this queue is on this node, and nothing of it runs elsewhere.");
  if (q.handler && q.workers > 0 && q.active >= q.workers && q.max_workers > 0 && q.active >= q.max_workers) why.push(`All ${q.max_workers} workers of this node are busy.`);
  if (job.state === "waiting") {
    if (q.waiting > 1) why.push(`It stands in line with ${count(q.waiting)} jobs, the first of which was pushed ${relative(q.oldest_waiting)}.`);
    if (!why.length) why.push("Nothing holds it: it is handed out at any moment.");
  }
  return why;
}

const step = (at, title, more, tone = "") => ({ at, title, more, tone });

function timeline(job) {
  const steps = [step(job.pushed_at, "pushed", job.key ? `under the key ${job.key}` : "")];
  for (const e of job.errors ?? []) steps.push(step(e.at ?? null, "failed", e.text ?? String(e), "bad"));
  if (job.errors && job.attempts > job.errors.length) steps.splice(1, 0, step(null, `${job.attempts - job.errors.length} earlier attempts failed`, "", "bad"));
  if (!job.errors && job.attempts > 0) steps.push(step(null, `${job.attempts} ${job.attempts === 1 ? "attempt" : "attempts"} failed`, job.last_error, "bad"));
  if (job.state === "delayed") steps.push(step(job.due, "due", "then it joins the line", "warm"));
  if (job.state === "waiting") steps.push(step(null, "waits in line", ""));
  if (job.state === "running") steps.push(step(job.started_at ?? null, "runs", job.worker ?? "", "good"));
  if (job.state === "dead") steps.push(step(job.finished_at, "dead", "kept until it is replayed or deleted", "bad"));
  if (finished.has(job.state)) steps.push(step(job.finished_at, job.state, "", tones[job.state]));
  return steps;
}

export function Job({ url, may, has }) {
  const id = url.job ?? "";
  const [job, failure, again] = use_live(() => get_job(id), id, { on: /^(job|queue)\./ });
  const queue_name = job?.queue ?? id.slice(0, Math.max(0, id.lastIndexOf(".")));
  const [q] = use_get(`/v1/queues/${segment(queue_name)}`);
  const back = html`<a href=${href({ page: "queue", queue: queue_name })}>${queue_name || "Queues"}</a>`;
  if (failure && !job)
    return html`<h1>${back} / ${id}</h1>
      ${failure.status === 404
        ? html`<${Empty}>Nothing is known of this job any more: it was handled or removed a while ago, or there never was one of this id.<//>`
        : html`<${Failure} failure=${failure} again=${again} />`}`;
  if (!job) return html`<${Loading} />`;
  const then = (work, leave) => async () => {
    if (await work()) leave ? go({ page: "queue", queue: queue_name }) : again();
  };
  const over = finished.has(job.state);
  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      note(`${what} copied`);
    } catch {
      note("The browser does not let this page copy.", "bad");
    }
  };
  return html`
    <div class="title-row">
      <h1>${back} / <code>${job.id}</code></h1>
      <${Badge} tone=${tones[job.state] ?? ""}>${job.state}<//>
      ${job.cancel_asked && !over && html`<${Badge} tone="warm">asked to stop<//>`}
      <span class="fill"></span>
      <span class="row-actions">
        <button class="small" onClick=${() => copy(job.id, "id")}>Copy id</button>
        ${job.payload_text && html`<${Act} may=${may.push} onClick=${then(() => act.push(queue_name, pretty(job.payload_text), has.life))}>Push as new…<//>`}
        ${(job.state === "dead" || job.state === "delayed") && html`<${Act} may=${may.admin} onClick=${then(() => act.retry_job(job.id))}>${job.state === "dead" ? "Replay" : "Run now"}<//>`}
        ${!over && job.cancel_asked === false && job.state !== "dead" && html`<${Act} may=${may.admin} danger onClick=${then(() => act.cancel_job(job.id))}>Cancel…<//>`}
        ${(!over || job.payload_text) && job.state !== "running" && html`<${Act} may=${may.admin} danger onClick=${then(() => act.delete_job(job.id), true)}>Delete…<//>`}
      </span>
    </div>
    <div class="columns">
      <div>
        <section class=${`why ${tones[job.state] ?? ""}`}>
          <h2>${job.state === "running" || over ? "Where it stands" : "Why is it not running?"}</h2>
          <ul>${why_not_running(job, q).map((w) => html`<li>${w}</li>`)}</ul>
        </section>
        <section>
          <div class="section-head"><h2>Payload</h2>${job.payload_text && html`<button class="small" onClick=${() => copy(job.payload_text, "payload")}>Copy</button>`}</div>
          ${job.payload_text
            ? html`<pre class="json">${pretty(job.payload_text)}</pre>`
            : job.payload_base64
              ? html`<p class="dim">Not JSON as a reader would keep it; in base64:</p><pre class="json">${job.payload_base64}</pre>`
              : html`<p class="dim">Not kept: the job has ended.</p>`}
        </section>
        ${job.result !== undefined && job.result !== null && html`<section><h2>Result</h2><pre class="json">${JSON.stringify(job.result, null, 2)}</pre></section>`}
        ${job.progress !== undefined && job.progress !== null && html`<section><h2>Progress</h2><progress max="1" value=${job.progress.value ?? job.progress}></progress> <span class="dim">${job.progress.text ?? ""}</span></section>`}
        ${job.log?.length > 0 && html`<section><h2>Log</h2><pre class="json">${job.log.map((l) => (typeof l === "string" ? l : `${l.at ?? ""} ${l.text ?? ""}`)).join("\n")}</pre></section>`}
        ${job.last_error && html`<section><h2>Last error</h2><pre class="json error">${job.last_error}</pre></section>`}
      </div>
      <div>
        <section><h2>Timeline</h2>
          <ol class="timeline">${timeline(job).map((s) => html`<li class=${s.tone}><b>${s.title}</b> ${s.at ? html`<${Time} at=${s.at} /> <span class="dim">${clock_time(s.at)}</span>` : null}${s.more && html`<div class="dim">${s.more}</div>`}</li>`)}</ol>
        </section>
        <section><h2>Facts</h2>
          <${Facts} of=${[
            ["Queue", back],
            ["Attempts", `${job.attempts}${job.max_attempts ? ` of ${job.max_attempts}` : ""}`],
            ["Key", job.key || html`<span class="dim">none</span>`],
            job.priority ? ["Priority", job.priority] : null,
            job.order_by ? ["Order key", job.order_by] : null,
            job.retry ? ["Retries", job.retry] : null,
            job.deadline ? ["Deadline", html`<${Time} at=${job.deadline} />`] : null,
            ["Pushed", html`<${Time} at=${job.pushed_at} />`],
            [over ? "Kept until" : "Due", html`<${Time} at=${job.due} none=${over ? "–" : "at once"} />`],
            ["Times are in", zone],
          ]} />
        </section>
        ${Object.keys(job.headers ?? {}).length > 0 && html`<section><h2>Headers</h2><${Facts} of=${Object.entries(job.headers)} /></section>`}
      </div>
    </div>`;
}

import { html } from "../lib/html.js";
import { use_get } from "../lib/live.js";
import { href, params } from "../lib/url.js";
import { Card, Failure, Loading, Tabs } from "../lib/ui.js";
import { count, rate, seconds_since, short_count, span } from "../lib/format.js";
import { Chart } from "../lib/chart.js";

const sum = (queues, name) => queues.reduce((n, q) => n + (q[name] ?? 0), 0);

/// What an operator should look at, the worst first. Each: { tone, text, link }.
export function what_is_wrong({ queues, ready, cluster, cron }) {
  const found = [];
  for (const reason of ready?.reasons ?? []) found.push({ tone: "bad", text: reason, link: { page: "store" } });
  for (const q of queues ?? []) {
    const link = { page: "queue", queue: q.name };
    const waited = seconds_since(q.oldest_waiting) ?? 0;
    if (q.trouble) found.push({ tone: "bad", text: `${q.name}: ${q.trouble}`, link });
    if (q.phase === "unknown") found.push({ tone: "bad", text: `${q.name} does not answer`, link });
    if (q.phase === "standby") found.push({ tone: "bad", text: `${q.name}: its owner ${q.owner || ""} cannot be reached`, link });
    if (q.dead > 0) found.push({ tone: "bad", text: `${q.name}: ${count(q.dead)} dead ${q.dead === 1 ? "job" : "jobs"}`, link: { ...link, state: "dead" } });
    if (q.phase === "paused") found.push({ tone: "warm", text: `${q.name} is paused by ${q.paused_by || "somebody"}; ${count(q.waiting)} wait`, link });
    if (q.phase === "draining" || q.phase === "stopped") found.push({ tone: "warm", text: `${q.name} is ${q.phase} and takes no pushes`, link });
    if (q.waiting > 0 && q.phase === "running" && !q.handler && q.running === 0)
      found.push({ tone: "warm", text: `${q.name}: ${count(q.waiting)} wait, and this node has no handler for it`, link });
    else if (q.phase === "running" && waited > 60) found.push({ tone: "warm", text: `${q.name}: the next in line has waited ${span(waited)}`, link });
    if (q.length > 0 && q.waiting + q.delayed > 0.9 * q.length)
      found.push({ tone: "bad", text: `${q.name} is nearly full: ${count(q.waiting + q.delayed)} of LENGTH ${count(q.length)}`, link });
    if (q.abandoned > 0) found.push({ tone: "warm", text: `${q.name}: ${q.abandoned} handlers did not end when asked to`, link });
  }
  for (const n of cluster?.nodes ?? []) if (!n.alive) found.push({ tone: "bad", text: `node ${n.name} has been silent for ${span(n.silent_ms / 1000)}`, link: { page: "cluster" } });
  for (const name of cluster?.without_owner ?? []) found.push({ tone: "bad", text: `${name} has no owner`, link: { page: "cluster" } });
  for (const t of cron?.tasks ?? []) {
    const late = t.enabled && !t.paused && t.next ? seconds_since(t.next) : 0;
    if (late > 60) found.push({ tone: "warm", text: `task ${t.name} is late by ${span(late)}`, link: { page: "schedules", task: t.name } });
    if (t.status === "error" || t.status === "lost") found.push({ tone: "warm", text: `task ${t.name}: the last run ended with ${t.status}${t.previous?.message ? `: ${t.previous.message}` : ""}`, link: { page: "schedules", task: t.name } });
  }
  return found.sort((a, b) => (a.tone === b.tone ? 0 : a.tone === "bad" ? -1 : 1));
}

export function Charts({ queue = "", span: chosen }) {
  const which = chosen === "24h" ? "24h" : "15m";
  const [h, failure] = use_get(`/v1/history?span=${which}${queue ? `&queue=${encodeURIComponent(queue)}` : ""}`, { every: which === "24h" ? 30000 : 2000 });
  const seconds = which === "24h" ? 24 * 3600 : 15 * 60;
  if (failure?.is_absent) return null;
  return html`<section>
    <div class="section-head"><h2>Rates</h2><${Tabs} all=${[["15m"], ["24h"]]} current=${which} link=${(s) => href({ ...params(), span: s })} /></div>
    <${Failure} failure=${failure} />
    ${h &&
    html`<div class="charts">
      <${Chart} title="Jobs a second" unit="/s" span=${seconds} at=${h.at} series=${[
        { label: "pushed", values: h.pushed, tone: "plain" },
        { label: "handled", values: h.handled, tone: "good" },
        { label: "failed", values: h.failed, tone: "bad" },
      ]} />
      <${Chart} title="Jobs by state" span=${seconds} at=${h.at} series=${[
        { label: "waiting", values: h.waiting, tone: "plain", fill: true },
        { label: "running", values: h.running, tone: "good" },
        { label: "delayed", values: h.delayed, tone: "warm" },
        { label: "dead", values: h.dead, tone: "bad" },
      ]} />
      <${Chart} title="Next in line has waited" unit="s" span=${seconds} at=${h.at} series=${[{ label: "seconds", values: h.oldest, tone: "warm", fill: true }]} />
    </div>`}
  </section>`;
}

export function Overview({ url, shared }) {
  const { queues, failure, again, ready, cluster, cron } = shared;
  const [h] = use_get("/v1/history?span=15m");
  if (!queues) return failure ? html`<${Failure} failure=${failure} again=${again} />` : html`<${Loading} />`;
  const wrong = what_is_wrong({ queues, ready, cluster, cron });
  const last = (name) => h?.[name]?.at(-1);
  const oldest = queues.map((q) => q.oldest_waiting).filter(Boolean).sort()[0];
  const up = cluster?.nodes?.filter((n) => n.alive).length;
  return html`
    <div class="cards">
      <${Card} label="waiting" value=${short_count(sum(queues, "waiting"))} link=${href({ page: "queues", sort: "-Waiting" })} />
      <${Card} label="running" value=${short_count(sum(queues, "running"))} tone="good" />
      <${Card} label="delayed" value=${short_count(sum(queues, "delayed"))} />
      <${Card} label="dead" value=${short_count(sum(queues, "dead"))} tone=${sum(queues, "dead") ? "bad" : ""} link=${href({ page: "queues", sort: "-Dead" })} />
      <${Card} label="handled" value=${rate(last("handled"))} sub=${`${short_count(sum(queues, "handled"))} in all`} tone="good" />
      <${Card} label="failed" value=${rate(last("failed"))} sub=${`${short_count(sum(queues, "failed"))} in all`} tone=${last("failed") ? "bad" : ""} />
      <${Card} label="oldest waiting" value=${oldest ? span(seconds_since(oldest)) : "–"} />
      ${up !== undefined && html`<${Card} label="nodes up" value=${`${up}/${cluster.nodes.length}`} tone=${up < cluster.nodes.length ? "bad" : "good"} link=${href({ page: "cluster" })} />`}
    </div>
    <section class="wrong">
      <h2>What is wrong now</h2>
      ${wrong.length
        ? html`<ul>${wrong.slice(0, 12).map((w) => html`<li class=${w.tone}><a href=${href(w.link)}>${w.text}</a></li>`)}</ul>
            ${wrong.length > 12 && html`<p class="dim">and ${wrong.length - 12} more</p>`}`
        : html`<p class="all-well">Nothing. ${queues.length} ${queues.length === 1 ? "queue" : "queues"}, all in order.</p>`}
    </section>
    ${queues.length === 0 &&
    html`<section class="empty"><p>There is no queue yet. Push a job, and it is there:</p>
      <pre>caravan push mail '{"to": "ann@example.org"}'</pre></section>`}
    <${Charts} span=${url.span} />`;
}

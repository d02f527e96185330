// What operators do to queues and jobs, with the question before and the word after.
import { call, get, post, segment } from "../lib/api.js";
import { ask, attempt, note } from "../lib/ui.js";
import { count } from "../lib/format.js";

const path = (queue, verb) => `/v1/queues/${segment(queue)}/${verb}`;

export async function pause(queue) {
  const answer = await ask({
    title: `Pause ${queue.name}`,
    text: "Nothing more is handed out; pushes are still taken, what runs may end.",
    fields: [{ name: "for", label: "For how long", hint: "10m, 2h; empty: until it is resumed" }],
    action: "Pause",
  });
  if (!answer) return false;
  return attempt(() => post(path(queue.name, "pause"), answer.for.trim() ? { for: answer.for.trim() } : {}), `${queue.name} is paused`);
}

export const resume = (queue) => attempt(() => post(path(queue.name, "resume"), {}), `${queue.name} goes on`);

export async function drain(queue) {
  const answer = await ask({
    title: `Drain ${queue.name}`,
    text: `Pushes are refused from now on, the ${count(queue.waiting)} waiting jobs are handed out, then the queue is stopped until its node starts again. A resume takes it back while it lasts.`,
    action: "Drain",
    danger: true,
  });
  return answer ? attempt(() => post(path(queue.name, "drain"), {}), `${queue.name} drains`) : false;
}

export async function purge(queue, state) {
  const n = queue[state];
  const answer = await ask({
    title: `Purge ${queue.name}`,
    text: `Forgets all ${count(n)} ${state} jobs of this queue for good.`,
    type: queue.name,
    action: `Forget ${count(n)} jobs`,
    danger: true,
  });
  return answer
    ? attempt(() => post(path(queue.name, "purge"), { state }), (done) => `${count(done.purged)} ${state} jobs of ${queue.name} are forgotten`)
    : false;
}

export async function scale(queue) {
  const answer = await ask({
    title: `Workers of ${queue.name}`,
    text: "How many handlers may run at once on this node, until it restarts.",
    fields: [{ name: "most", label: "At most", value: String(queue.max_workers), hint: "0: no limit" }],
    action: "Set",
  });
  if (!answer) return false;
  const most = Number(answer.most);
  if (!Number.isInteger(most)) return note("That is no whole number.", "bad"), false;
  return attempt(() => post(path(queue.name, "scale"), { max_workers: most }), `${queue.name} may have ${most > 0 ? most : "any number of"} workers`);
}

export async function move(queue) {
  let nodes = [];
  try {
    nodes = (await get("/v1/cluster")).nodes.filter((n) => n.alive && !n.cordoned && n.name !== queue.owner).map((n) => n.name);
  } catch (failure) {
    return note(failure.message, "bad"), false;
  }
  if (!nodes.length) return note("There is no other node that could take it.", "bad"), false;
  const answer = await ask({
    title: `Move ${queue.name}`,
    text: `It lives on ${queue.owner}. Producers and workers notice nothing but a short pause.`,
    fields: [{ name: "to", label: "To the node", value: nodes[0], options: nodes }],
    action: "Move",
  });
  return answer ? attempt(() => post(path(queue.name, "move"), { to: answer.to }), `${queue.name} moves to ${answer.to}`) : false;
}

export async function push(queue_name, payload = "", with_life = false) {
  const answer = await ask({
    title: `Push to ${queue_name}`,
    text: "A job of your own, to try a handler or to repeat a job with other data.",
    fields: [
      { name: "payload", label: "Payload (JSON)", value: payload, large: true },
      { name: "delay", label: "Delay", hint: "5m; empty: at once" },
      ...(with_life ? [{ name: "priority", label: "Priority", hint: "-100 to 100; empty: 0" }, { name: "order_by", label: "Order key", hint: "jobs that share it are handled one after another" }] : []),
    ],
    action: "Push",
  });
  if (!answer) return false;
  try {
    JSON.parse(answer.payload);
  } catch (cause) {
    return note(`The payload is no JSON: ${cause.message}`, "bad"), false;
  }
  // As text, so that large numbers stay as they were typed.
  const delay = answer.delay.trim() ? `,"delay":${JSON.stringify(answer.delay.trim())}` : "";
  const priority = (answer.priority ?? "").trim();
  if (priority && !/^-?\d+$/.test(priority)) return note("The priority is no whole number.", "bad"), false;
  const order = (answer.order_by ?? "").trim();
  const more = `${priority ? `,"priority":${Number(priority)}` : ""}${order ? `,"order_by":${JSON.stringify(order)}` : ""}`;
  return attempt(() => post_text(path(queue_name, "jobs"), `{"payload":${answer.payload}${delay}${more}}`), (done) => `pushed ${done.id}`);
}

async function post_text(where, text) {
  const { headers, url_of, problem } = await import("../lib/api.js");
  const answer = await fetch(url_of(where), { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: text });
  const value = await answer.json().catch(() => null);
  if (!answer.ok) throw new problem(answer.status, value?.code ?? "error", value?.detail ?? answer.statusText);
  return value;
}

export const retry_job = (id) => attempt(() => post(`/v1/jobs/${segment(id)}/retry`, {}), `${id} waits in line`);

export async function cancel_job(id) {
  const answer = await ask({ title: `Cancel ${id}`, text: "It is not handled any more; if it runs, its handler is asked to stop.", action: "Cancel the job", danger: true });
  return answer ? attempt(() => post(`/v1/jobs/${segment(id)}/cancel`, {}), `${id} is cancelled`) : false;
}

export async function delete_job(id) {
  const answer = await ask({ title: `Delete ${id}`, text: "Forgets the job for good.", action: "Delete", danger: true });
  return answer ? attempt(() => call("DELETE", `/v1/jobs/${segment(id)}`), `${id} is deleted`) : false;
}

/// All that match, by the node, in parts. Says how many there are before it changes any.
export async function change_matching(queue, state, verb, text) {
  const words = verb === "delete" ? "Delete" : state === "dead" ? "Replay" : "Run now";
  const asked = await ask({
    title: `${words}: which ${state} jobs of ${queue}`,
    text: "Those for which all of this holds; all of them where nothing is given. They are counted first.",
    fields: [
      { name: "error", label: "Last error contains", value: text },
      { name: "key", label: "Unique or order key" },
      { name: "older_than", label: "Pushed longer ago than", hint: "10m, 2h" },
      { name: "priority", label: "Priority", hint: "-100 to 100" },
    ],
    action: "Count them",
  });
  if (!asked) return false;
  const filter = Object.fromEntries(Object.entries(asked).map(([k, v]) => [k, v.trim()]).filter(([, v]) => v));
  if (filter.priority !== undefined) {
    if (!/^-?\d+$/.test(filter.priority)) return note("The priority is no whole number.", "bad"), false;
    filter.priority = Number(filter.priority);
  }
  const through_all = async (dry_run) => {
    const sum = { matched: 0, changed: 0 };
    for (let after = null; ; ) {
      const part = await post(path(queue, `jobs/${verb}`), { state, ...filter, dry_run, ...(after ? { after } : {}) });
      sum.matched += part.matched;
      sum.changed += part.changed;
      if (!(after = part.next)) return sum;
    }
  };
  let n;
  try {
    n = (await through_all(true)).matched;
  } catch (failure) {
    return note(failure.message, "bad"), false;
  }
  if (!n) return note(`No ${state} job of ${queue} matches.`, "bad"), false;
  const given = Object.entries(filter).map(([k, v]) => `${k} ${v}`).join(", ");
  const sure = await ask({
    title: `${words} ${count(n)} ${n === 1 ? "job" : "jobs"}`,
    text: `The ${state} jobs of ${queue}${given ? ` with ${given}` : ", all of them"}.${verb === "delete" ? " This cannot be taken back." : ""}`,
    type: verb === "delete" ? queue : undefined,
    action: `${words} ${count(n)}`,
    danger: verb === "delete",
  });
  return sure ? attempt(() => through_all(false), (done) => `${words}: ${count(done.changed)} done`) : false;
}

/// On exactly these jobs, a few at a time; one that cannot be changed does not stop the rest.
export async function on_jobs(ids, verb, on_progress) {
  let done = 0;
  const failures = [];
  const line = [...ids];
  const one = async () => {
    for (let id; (id = line.shift()) !== undefined; ) {
      try {
        if (verb === "delete") await call("DELETE", `/v1/jobs/${segment(id)}`);
        else await post(`/v1/jobs/${segment(id)}/${verb}`, {});
        ++done;
      } catch (failure) {
        failures.push({ id, failure });
        if (failure.status === 401 || failure.status === 403) line.length = 0;
      }
      on_progress(done + failures.length);
    }
  };
  await Promise.all([one(), one(), one(), one()]);
  return { done, failures };
}

// Fresh data. The node's event stream says when something changed. What no event tells (counters) is looked at every 2 s;
// what events do tell, only now and then while the stream is up. A hidden tab asks for nothing and listens to nothing,
// one whose node is gone asks more and more rarely.
import { useEffect, useRef, useState } from "./html.js";
import { call, headers, url_of } from "./api.js";

const quick = 2000;
const told = 5000; // between looks at what events tell
const slowest = 30000;
const at_most_every = 1000; // however many events come

/// What seldom happens. Topics of each job and lock cost the node something, so a page that shows them asks for them.
const news = "queue.#,job.dead,job.retried,job.deleted,cron.#,lock.lost,lock.forced,*.trouble,*.recovered,handler.#,cluster.#,app.#";

/// Which events tell that an answer of the API is stale. `all`: they tell every change of it.
const touched = [
  { path: /^\/v1\/(queues|jobs|history)/, topic: /^(queue|job)\./ },
  { path: /^\/v1\/cron/, topic: /^cron\./, all: true },
  { path: /^\/v1\/cluster/, topic: /^(cluster|queue)\./ },
  { path: /^\/v1\/locks/, topic: /^lock\./ },
  { path: /^\/v1\/limits/, topic: /^limit\./ },
  { path: /^\/v1\/caches/, topic: /^cache\./ },
  { path: /^\/(v1\/store|readyz)/, topic: /^(queue|lock|limit|cache)\.(trouble|recovered)$/ },
];

const events = new EventTarget();
let stream_up = false;
function set_stream(up) {
  if (up === stream_up) return;
  stream_up = up;
  events.dispatchEvent(new Event("state"));
}

/// Whether the stream is there.
export function use_streaming() {
  const [up, set] = useState(stream_up);
  useEffect(() => {
    const look = () => set(stream_up);
    events.addEventListener("state", look);
    look();
    return () => events.removeEventListener("state", look);
  }, []);
  return up;
}

/// `f` gets each event: { id, topic, subject, node, at, body }. Of the topics "dropped" (some are missing) and
/// "connected" (from now on nothing is) there is a body at most.
export function on_event(f) {
  const take = (e) => f(e.detail);
  events.addEventListener("event", take);
  return () => events.removeEventListener("event", take);
}
const tell = (e) => events.dispatchEvent(new CustomEvent("event", { detail: e }));

let running = null; // { abort, topics }
let last_id = null;
const more_topics = new Map(); // who: topics
let started = false;

/// Listens to more than the news while it is shown.
export function use_topics(topics) {
  useEffect(() => {
    if (!topics) return undefined;
    const who = {};
    more_topics.set(who, topics);
    follow();
    return () => {
      more_topics.delete(who);
      follow();
    };
  }, [topics]);
}

/// Follows GET /v1/events until the answer is called; fetch can send the token, which EventSource cannot.
export function start_stream() {
  started = true;
  follow();
  document.addEventListener("visibilitychange", follow);
  return () => {
    started = false;
    document.removeEventListener("visibilitychange", follow);
    follow();
  };
}

function follow() {
  // A browser keeps six connections to a host for all its tabs: those that nobody sees give theirs back.
  const topics = started && !document.hidden ? [news, ...new Set(more_topics.values())].join(",") : null;
  if (running?.topics === topics) return;
  running?.abort.abort();
  running = topics ? { abort: new AbortController(), topics } : null;
  if (running) listen(running);
  else set_stream(false);
}

async function listen({ abort, topics }) {
  let pause = 1000;
  while (!abort.signal.aborted) {
    try {
      const answer = await fetch(url_of(`/v1/events?topic=${encodeURIComponent(topics)}`), {
        headers: headers(last_id ? { "Last-Event-ID": last_id, Accept: "text/event-stream" } : { Accept: "text/event-stream" }),
        signal: abort.signal,
      });
      if ([401, 403, 404, 405, 501].includes(answer.status)) break;
      if (answer.status === 400) last_id = null; // of another program at this address
      if (!answer.ok) throw new Error(answer.statusText);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      set_stream(true);
      tell({ topic: "connected" });
      pause = 1000;
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
          const e = read_event(text.slice(0, end));
          if (!e) continue;
          last_id = e.id ?? last_id;
          tell(e);
        }
      }
    } catch {
      // Tried again below.
    }
    if (abort.signal.aborted) return; // its successor tells how it stands
    set_stream(false);
    await new Promise((r) => setTimeout(r, pause));
    pause = Math.min(pause * 2, slowest);
  }
  if (!abort.signal.aborted) set_stream(false);
}

function read_event(text) {
  let id = null;
  let name = null;
  const data = [];
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith("id:")) id = line.slice(3).trim();
    else if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trim());
  }
  if (!data.length) return null;
  try {
    const value = JSON.parse(data.join("\n"));
    return name ? { topic: name, body: value } : { ...value, id };
  } catch {
    return null;
  }
}

/// [value, failure, again]: what `load(signal)` answered last. It is called anew when `key` changes, `every` so many ms
/// (0: never), and when an event comes whose topic matches `on`. `all`: such events tell every change. A failure keeps
/// the last value.
export function use_live(load, key, { every = quick, on = null, all = false } = {}) {
  const [state, set] = useState({ key, value: null, failure: null });
  const again = useRef(() => {});
  const pace = useRef(every);
  pace.current = every;
  useEffect(() => {
    const abort = new AbortController();
    let timer = null;
    let failures = 0;
    let under_way = false;
    let once_more = false;
    let last = 0;
    const look = async () => {
      clearTimeout(timer);
      once_more = under_way;
      if (document.hidden || under_way) return;
      under_way = true;
      last = Date.now();
      try {
        const value = await load(abort.signal);
        failures = 0;
        if (!abort.signal.aborted) set({ key, value, failure: null });
      } catch (failure) {
        if (failure.name === "AbortError") return;
        ++failures;
        if (!abort.signal.aborted) set((s) => ({ key, value: s.key === key ? s.value : null, failure }));
        if (failure.status === 401 || failure.is_absent) return;
      } finally {
        under_way = false;
      }
      if (abort.signal.aborted) return;
      if (once_more) return void soon();
      if (pace.current === 0) return;
      const pause = stream_up && all ? Math.max(pace.current, told) : pace.current;
      timer = setTimeout(look, Math.min(pause * 2 ** Math.min(failures, 5), slowest));
    };
    const soon = () => {
      clearTimeout(timer);
      timer = setTimeout(look, Math.max(100, last + at_most_every - Date.now()));
    };
    again.current = look;
    look();
    const seen = () => !document.hidden && look();
    document.addEventListener("visibilitychange", seen);
    const lost = () => !stream_up && pace.current > 0 && failures === 0 && soon(); // from now on it has to ask
    events.addEventListener("state", lost);
    const stop_events = on_event((e) => {
      if (!on || pace.current === 0) return;
      if (e.topic === "connected" ? !all : e.topic !== "dropped" && !on.test(e.topic)) return;
      if (under_way) once_more = true;
      else if (failures === 0) soon();
    });
    return () => {
      abort.abort();
      clearTimeout(timer);
      stop_events();
      events.removeEventListener("state", lost);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key]);
  const mine = state.key === key;
  return [mine ? state.value : null, mine ? state.failure : null, () => again.current()];
}

/// The same for one path of the API.
export function use_get(path, options) {
  const by = touched.find((t) => t.path.test(path));
  return use_live((signal) => call("GET", path, undefined, { signal }), path, { on: by?.topic, all: by?.all, ...options });
}

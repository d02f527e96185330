// Fresh data: the node's event stream says when something changed; where there is none, a look every 2 s. A hidden tab
// asks for nothing, and one whose node is gone asks more and more rarely.
import { useEffect, useRef, useState } from "./html.js";
import { call, headers, url_of } from "./api.js";

const quick = 2000;
const with_events = 5000;
const slowest = 30000;

const events = new EventTarget();
let stream_up = false;
export const is_streaming = () => stream_up;

/// Everybody who shows events gets each: { id, topic, data }.
export function on_event(f) {
  const take = (e) => f(e.detail);
  events.addEventListener("event", take);
  return () => events.removeEventListener("event", take);
}

let stop_stream = null;
/// Follows GET /v1/events until stop(); fetch can send the token, which EventSource cannot.
export function start_stream() {
  stop_stream?.();
  const abort = new AbortController();
  stop_stream = () => abort.abort();
  (async () => {
    let last = null;
    let pause = 1000;
    while (!abort.signal.aborted) {
      try {
        const answer = await fetch(url_of("/v1/events"), {
          headers: headers(last ? { "Last-Event-ID": last, Accept: "text/event-stream" } : { Accept: "text/event-stream" }),
          signal: abort.signal,
        });
        if ([401, 403, 404, 405, 501].includes(answer.status)) return;
        if (!answer.ok) throw new Error(answer.statusText);
        stream_up = true;
        pause = 1000;
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let text = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          text += value;
          for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
            const e = read_event(text.slice(0, end));
            if (!e) continue;
            last = e.id ?? last;
            events.dispatchEvent(new CustomEvent("event", { detail: e }));
          }
        }
      } catch {
        // Tried again below.
      }
      stream_up = false;
      await new Promise((r) => setTimeout(r, pause));
      pause = Math.min(pause * 2, slowest);
    }
  })();
  return stop_stream;
}

function read_event(text) {
  let id = null;
  let topic = "message";
  const data = [];
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith("id:")) id = line.slice(3).trim();
    else if (line.startsWith("event:")) topic = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trim());
  }
  if (!data.length) return null;
  try {
    return { id, topic, data: JSON.parse(data.join("\n")) };
  } catch {
    return { id, topic, data: data.join("\n") };
  }
}

/// [value, failure, again]: what `load(signal)` answered last. It is called anew when `key` changes, and as the head of
/// this file says. A failure keeps the last value.
export function use_live(load, key, { every = quick } = {}) {
  const [state, set] = useState({ key, value: null, failure: null });
  const again = useRef(() => {});
  useEffect(() => {
    const abort = new AbortController();
    let timer = null;
    let failures = 0;
    let under_way = false;
    const look = async () => {
      clearTimeout(timer);
      if (document.hidden || under_way) return;
      under_way = true;
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
      if (abort.signal.aborted || every === 0) return;
      const pause = stream_up ? Math.max(every, with_events) : every;
      timer = setTimeout(look, Math.min(pause * 2 ** Math.min(failures, 5), slowest));
    };
    again.current = look;
    look();
    const seen = () => !document.hidden && look();
    document.addEventListener("visibilitychange", seen);
    let soon = null;
    const stop_events = on_event(() => {
      soon ??= setTimeout(() => {
        soon = null;
        look();
      }, 300);
    });
    return () => {
      abort.abort();
      clearTimeout(timer);
      clearTimeout(soon);
      stop_events();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key]);
  const mine = state.key === key;
  return [mine ? state.value : null, mine ? state.failure : null, () => again.current()];
}

/// The same for one path.
export const use_get = (path, options) => use_live((signal) => call("GET", path, undefined, { signal }), path, options);

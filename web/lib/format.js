// Numbers and times for people.

const units = [
  ["d", 86400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/// "3h 12m", "4.2s", "80ms".
export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const s = Math.abs(seconds);
  if (s < 1) return `${Math.round(s * 1000)}ms`;
  if (s < 10) return `${s.toFixed(1)}s`;
  const i = units.findIndex(([, size]) => s >= size);
  const [unit, size] = units[i];
  const whole = Math.floor(s / size);
  const next = units[i + 1];
  const rest = next ? Math.floor((s - whole * size) / next[1]) : 0;
  return rest ? `${whole}${unit} ${rest}${next[0]}` : `${whole}${unit}`;
}

export const seconds_since = (instant) => (instant ? (Date.now() - Date.parse(instant)) / 1000 : null);

/// "3m ago", "in 5s".
export function relative(instant) {
  const s = seconds_since(instant);
  if (s === null) return "–";
  return s >= 0 ? `${span(s)} ago` : `in ${span(s)}`;
}

const time_of_day = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
export const absolute = (instant) => (instant ? `${local.format(new Date(instant))} ${zone}\n${instant} (UTC)` : "");
/// Of today the time alone.
export const hour = (instant) => (new Date(instant).toDateString() === new Date().toDateString() ? time_of_day : local).format(new Date(instant));
export const clock_time = (instant) => (instant ? local.format(new Date(instant)) : "–");

export function count(n) {
  if (n === null || n === undefined) return "–";
  return Number(n).toLocaleString("en-US");
}
export function short_count(n) {
  if (n === null || n === undefined) return "–";
  if (n < 10000) return count(n);
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e5 ? 1 : 0)}k`;
  if (n < 1e9) return `${(n / 1e6).toFixed(n < 1e7 ? 2 : 1)}M`;
  return `${(n / 1e9).toFixed(2)}G`;
}
export function rate(n) {
  if (n === null || n === undefined) return "–";
  if (n === 0) return "0/s";
  if (n < 0.1) return `${(n * 60).toFixed(1)}/min`;
  return n < 10 ? `${n.toFixed(1)}/s` : `${short_count(Math.round(n))}/s`;
}
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < names.length - 1) {
    n /= 1024;
    ++i;
  }
  return `${i ? n.toFixed(1) : n} ${names[i]}`;
}
export const percent = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–");

/// JSON text with line breaks, every number as it was written.
export function pretty(text) {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    if (c === '"') {
      const begin = i;
      for (++i; i < text.length && text[i] !== '"'; ++i) if (text[i] === "\\") ++i;
      out += text.slice(begin, i + 1);
    } else if (c === "{" || c === "[") {
      const close = c === "{" ? "}" : "]";
      const rest = text.slice(i + 1).match(/^\s*/)[0].length;
      if (text[i + 1 + rest] === close) {
        out += c + close;
        i += 1 + rest;
      } else {
        ++depth;
        out += c + line();
      }
    } else if (c === "}" || c === "]") {
      --depth;
      out += line() + c;
    } else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}

// The HTTP API of the node that served this page. Everything is relative to it, so a path prefix does not matter.

const base = new URL("../", document.baseURI);
const token_key = "caravan.token";

let token = null;
try {
  token = sessionStorage.getItem(token_key);
} catch {
  // Without storage one logs in again after each reload.
}

const listeners = new Set();
/// `f(problem)` is called for each answer 401.
export function on_unauthorized(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}

export function set_token(value) {
  token = value || null;
  try {
    if (token) sessionStorage.setItem(token_key, token);
    else sessionStorage.removeItem(token_key);
  } catch {
    // See above.
  }
}
export const has_token = () => token !== null;

/// What went wrong, in the node's words. `status` 0: no answer came.
export class problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
  /// The node of this version, or as it is set up, does not have that.
  get is_absent() {
    return this.status === 404 || this.status === 501;
  }
}

export function headers(more = {}) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}
export const url_of = (path) => new URL(path.replace(/^\//, ""), base);

export async function call(method, path, body, { signal } = {}) {
  let answer;
  try {
    answer = await fetch(url_of(path), {
      method,
      signal,
      headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new problem(0, "unreachable", "The node does not answer. Is it running? This page tries again by itself.");
  }
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = null;
  }
  if (answer.ok) return value;
  const failure = new problem(answer.status, value?.code ?? "error", value?.detail ?? text ?? answer.statusText);
  if (answer.status === 401) listeners.forEach((f) => f(failure));
  throw failure;
}

export const get = (path, options) => call("GET", path, undefined, options);
export const post = (path, body) => call("POST", path, body);
export const segment = encodeURIComponent;

/// A job as the node wrote it: whole numbers beyond 2^53 must not be rounded, so the payload stays text.
export async function get_job(id) {
  const answer = await fetch(url_of(`/v1/jobs/${segment(id)}`), { headers: headers() });
  const text = await answer.text();
  const value = text ? JSON.parse(text) : null;
  if (!answer.ok) {
    const failure = new problem(answer.status, value?.code ?? "error", value?.detail ?? answer.statusText);
    if (answer.status === 401) listeners.forEach((f) => f(failure));
    throw failure;
  }
  return { ...value, payload_text: raw_member(text, "payload") };
}

/// The text of one member of a JSON object, as it was written; null when it is not there.
export function raw_member(text, name) {
  let depth = 0;
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    if (c === '"') {
      const begin = i;
      for (++i; text[i] !== '"'; ++i) if (text[i] === "\\") ++i;
      if (depth === 1 && JSON.parse(text.slice(begin, i + 1)) === name && /^\s*:/.test(text.slice(i + 1)))
        return value_at(text, text.indexOf(":", i) + 1);
    } else if (c === "{" || c === "[") ++depth;
    else if (c === "}" || c === "]") --depth;
  }
  return null;
}

function value_at(text, from) {
  let depth = 0;
  for (let i = from; i < text.length; ++i) {
    const c = text[i];
    if (c === '"') {
      for (++i; text[i] !== '"'; ++i) if (text[i] === "\\") ++i;
    } else if (c === "{" || c === "[") ++depth;
    else if ((c === "}" || c === "]" || c === ",") && depth === 0) return text.slice(from, i).trim();
    else if (c === "}" || c === "]") --depth;
  }
  return text.slice(from).trim();
}

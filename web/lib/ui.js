// What the pages are made of.
import { html, useEffect, useRef, useState } from "./html.js";
import { absolute, relative } from "./format.js";
import { change } from "./url.js";

export const Time = ({ at, none = "–" }) =>
  at ? html`<time datetime=${at} title=${absolute(at)}>${relative(at)}</time>` : html`<span class="dim">${none}</span>`;

export const Badge = ({ tone = "", title, children }) => html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;

const phase_tones = { running: "good", paused: "warm", draining: "warm", stopping: "warm", standby: "soft", moving: "warm" };
export function Phase({ queue }) {
  if (queue.trouble) return html`<${Badge} tone="bad" title=${queue.trouble}>trouble<//>`;
  const paused = queue.phase === "paused";
  const why = paused ? `paused by ${queue.paused_by || "somebody"}${queue.paused_until ? ` until ${absolute(queue.paused_until)}` : ", until it is resumed"}` : "";
  return html`<${Badge} tone=${phase_tones[queue.phase] ?? "bad"} title=${why}>
    ${queue.phase}${paused && queue.paused_until ? html` ${relative(queue.paused_until)}` : null}
  <//>`;
}

export const Empty = ({ children }) => html`<div class="empty">${children}</div>`;
export const Loading = () => html`<div class="empty dim" aria-busy="true">…</div>`;

export function Failure({ failure, again }) {
  if (!failure) return null;
  return html`<div class="failure" role="alert">
    <b>${failure.status ? `${failure.status} ${failure.code}` : "No answer"}</b> ${failure.message}
    ${again && html` <button class="small" onClick=${again}>Try again</button>`}
  </div>`;
}

/// columns: [{ title, cell: (row) => vnode, right, wide, sort: (row) => value, narrow_hide, mid_hide }]; hidden on a phone, on a small screen
export function Table({ columns, rows, key_of, link_of, empty, selection, sort_by, sort_param = "sort" }) {
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  const [name, down] = sort_by ? [sort_by.replace(/^-/, ""), sort_by.startsWith("-")] : [null, false];
  const sorted = columns.find((c) => c.title === name && c.sort);
  const shown = sorted
    ? [...rows].sort((a, b) => {
        const [x, y] = [sorted.sort(a), sorted.sort(b)];
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      })
    : rows;
  const all = selection && rows.every((r) => selection.has(key_of(r)));
  const choose_all = () => {
    const next = new Set(selection.all);
    rows.forEach((r) => (all ? next.delete(key_of(r)) : next.add(key_of(r))));
    selection.set(next);
  };
  const choose = (key) => {
    const next = new Set(selection.all);
    next.has(key) ? next.delete(key) : next.add(key);
    selection.set(next);
  };
  return html`<div class="table-box"><table>
    <thead><tr>
      ${selection && html`<th class="tick"><input type="checkbox" aria-label="all" checked=${all} onChange=${choose_all} /></th>`}
      ${columns.map(
        (c) => html`<th class=${`${c.right ? "right" : ""} ${c.narrow_hide ? "wide-only" : ""} ${c.mid_hide ? "roomy-only" : ""}`} aria-sort=${c.title === name ? (down ? "descending" : "ascending") : undefined}>
          ${c.sort
            ? html`<button class="plain" onClick=${() => change({ [sort_param]: name === c.title && !down ? `-${c.title}` : c.title })}>${c.title}${name === c.title ? (down ? " ▾" : " ▴") : ""}</button>`
            : c.title}
        </th>`,
      )}
    </tr></thead>
    <tbody>
      ${shown.map((row) => {
        const key = key_of(row);
        return html`<tr key=${key} data-row=${key}>
          ${selection && html`<td class="tick"><input type="checkbox" aria-label=${key} checked=${selection.has(key)} onChange=${() => choose(key)} /></td>`}
          ${columns.map(
            (c, i) => html`<td class=${`${c.right ? "right" : ""} ${c.wide ? "wide" : ""} ${c.narrow_hide ? "wide-only" : ""} ${c.mid_hide ? "roomy-only" : ""}`} data-title=${c.title}>
              ${i === 0 && link_of ? html`<a href=${link_of(row)} class="row-link">${c.cell(row)}</a>` : c.cell(row)}
            </td>`,
          )}
        </tr>`;
      })}
    </tbody>
  </table></div>`;
}

export const Facts = ({ of }) =>
  html`<dl class="facts">${of.filter(Boolean).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

export const Card = ({ label, value, tone = "", sub, link }) => {
  const inner = html`<div class="card-value">${value}</div><div class="card-label">${label}</div>${sub && html`<div class="card-sub">${sub}</div>`}`;
  return link ? html`<a class=${`card ${tone}`} href=${link}>${inner}</a>` : html`<div class=${`card ${tone}`}>${inner}</div>`;
};

export const Tabs = ({ all, current, link }) =>
  html`<nav class="tabs">${all.map(([name, label]) => html`<a href=${link(name)} class=${name === current ? "current" : ""} aria-current=${name === current ? "page" : undefined}>${label ?? name}</a>`)}</nav>`;

/// A button for what only some roles may do. `why` tells the others.
export const Act = ({ may, danger, onClick, children, small = true, disabled, why }) =>
  html`<button class=${`${small ? "small" : ""} ${danger ? "danger" : ""}`} disabled=${!may || disabled} title=${may ? (why ?? "") : "your token may not do this: it needs the role admin"} onClick=${onClick}>${children}</button>`;

// -- dialogs and notes: one place, so that any code may ask

let show_dialog = () => Promise.resolve(null);
let show_note = () => {};

/// Asks before something that cannot be taken back. `type`: a text to be typed first. `fields`: [{ name, label, value, hint }].
/// Answers an object of the fields, or null.
export const ask = (what) => show_dialog(what);
export const note = (text, tone = "good") => show_note({ text, tone });

/// Runs it and says how it went.
export async function attempt(work, done) {
  try {
    const value = await work();
    note(typeof done === "function" ? done(value) : done);
    return true;
  } catch (failure) {
    if (failure.status !== 401) note(failure.message, "bad");
    return false;
  }
}

export function Dialogs() {
  const [dialog, set_dialog] = useState(null);
  const [notes, set_notes] = useState([]);
  const box = useRef(null);
  useEffect(() => {
    show_dialog = (what) => new Promise((answer) => set_dialog({ ...what, answer }));
    show_note = (n) => {
      const one = { ...n, key: Math.random() };
      set_notes((all) => [...all.slice(-3), one]);
      setTimeout(() => set_notes((all) => all.filter((x) => x !== one)), n.tone === "bad" ? 10000 : 4000);
    };
  }, []);
  useEffect(() => {
    if (dialog && box.current && !box.current.open) box.current.showModal();
  }, [dialog]);
  const end = (value) => {
    box.current?.close();
    dialog?.answer(value);
    set_dialog(null);
  };
  return html`
    ${dialog &&
    html`<dialog ref=${box} onCancel=${(e) => { e.preventDefault(); end(null); }} aria-labelledby="dialog-title">
      <${DialogForm} key=${dialog.title} dialog=${dialog} end=${end} />
    </dialog>`}
    <div class="notes" role="status">${notes.map((n) => html`<div key=${n.key} class=${`note ${n.tone}`}>${n.text}</div>`)}</div>`;
}

function DialogForm({ dialog, end }) {
  const fields = dialog.fields ?? [];
  const [values, set] = useState(Object.fromEntries(fields.map((f) => [f.name, f.value ?? ""])));
  const [typed, set_typed] = useState("");
  const ready = !dialog.type || typed === dialog.type;
  const submit = (e) => {
    e.preventDefault();
    if (ready) end(values);
  };
  return html`<form method="dialog" onSubmit=${submit}>
    <h2 id="dialog-title">${dialog.title}</h2>
    <p>${dialog.text}</p>
    ${fields.map(
      (f, i) => html`<label>${f.label}
        ${f.options
          ? html`<select name=${f.name} value=${values[f.name]} onChange=${(e) => set({ ...values, [f.name]: e.target.value })}>${f.options.map((o) => html`<option value=${o} selected=${o === values[f.name]}>${o}</option>`)}</select>`
          : f.large
            ? html`<textarea name=${f.name} rows="8" spellcheck="false" value=${values[f.name]} onInput=${(e) => set({ ...values, [f.name]: e.target.value })}></textarea>`
            : html`<input name=${f.name} value=${values[f.name]} placeholder=${f.hint ?? ""} autofocus=${i === 0} autocomplete="off" onInput=${(e) => set({ ...values, [f.name]: e.target.value })} />`}
      </label>`,
    )}
    ${dialog.type && html`<label>Type <code>${dialog.type}</code> to confirm <input name="confirm" value=${typed} autofocus autocomplete="off" onInput=${(e) => set_typed(e.target.value)} /></label>`}
    <div class="dialog-buttons">
      <button type="button" onClick=${() => end(null)}>Cancel</button>
      <button type="submit" class=${dialog.danger ? "danger" : "primary"} disabled=${!ready}>${dialog.action ?? "OK"}</button>
    </div>
  </form>`;
}

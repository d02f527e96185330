// The dashboard: what is around the pages. Start here.
import { html, render, useEffect, useState } from "./lib/html.js";
import { get, has_token, on_unauthorized, problem, set_token } from "./lib/api.js";
import { start_stream, use_get } from "./lib/live.js";
import { go, href, use_url } from "./lib/url.js";
import { Badge, Dialogs, Failure } from "./lib/ui.js";
import { Overview, what_is_wrong } from "./pages/overview.js";
import { Queues } from "./pages/queues.js";
import { Queue } from "./pages/queue.js";
import { Job } from "./pages/job.js";
import { Workers } from "./pages/workers.js";
import { Schedules } from "./pages/schedules.js";
import { Locks } from "./pages/locks.js";
import { Limits } from "./pages/limits.js";
import { Caches } from "./pages/caches.js";
import { Cluster } from "./pages/cluster.js";
import { Events } from "./pages/events.js";
import { Store } from "./pages/store.js";

// `probe`: the page is shown where this answers. `key`: g, then it.
const pages = [
  { name: "overview", title: "Overview", key: "o", view: Overview },
  { name: "queues", title: "Queues", key: "q", view: Queues },
  { name: "workers", title: "Workers", key: "w", view: Workers, probe: "/v1/workers" },
  { name: "schedules", title: "Schedules", key: "s", view: Schedules, probe: "/v1/cron" },
  { name: "locks", title: "Locks", key: "l", view: Locks, probe: "/v1/locks?limit=1" },
  { name: "limits", title: "Limits", key: "i", view: Limits, probe: "/v1/limits" },
  { name: "caches", title: "Caches", key: "a", view: Caches, probe: "/v1/caches" },
  { name: "cluster", title: "Cluster", key: "c", view: Cluster, probe: "/v1/cluster" },
  { name: "events", title: "Events", key: "e", view: Events },
  { name: "store", title: "Store", key: "t", view: Store, probe: "/v1/store" },
];
const hidden_pages = { queue: Queue, job: Job };
const page_above = { queue: "queues", job: "queues" };

async function find_out() {
  const me = await get("/v1/me");
  if (me.login && !me.roles.length) return { me, has: {} };
  const has = {};
  const probes = [...pages.filter((p) => p.probe).map((p) => [p.name, p.probe]), ["events", "/v1/events/recent?limit=1"]];
  await Promise.all([
    get("/v1/openapi.json").then(
      (api) => (has.life = "/v1/jobs/{id}/cancel" in api.paths),
      () => {},
    ),
    ...probes.map(async ([name, path]) => {
      try {
        await get(path);
        has[name] = true;
      } catch (failure) {
        has[name] = failure instanceof problem ? !failure.is_absent : false;
      }
    }),
  ]);
  return { me, has };
}

function Login({ wrong, done }) {
  const [value, set] = useState("");
  const submit = (e) => {
    e.preventDefault();
    set_token(value.trim());
    done();
  };
  return html`<main class="login"><form onSubmit=${submit}>
    <img src="icon.svg" alt="" width="40" height="40" />
    <h1>Caravan</h1>
    <p>This node wants a token. It is one of <code>READ_TOKEN</code>, <code>PUSH_TOKEN</code>, <code>WORK_TOKEN</code>, <code>ADMIN_TOKEN</code> in <code>[http]</code> of its configuration.</p>
    ${wrong && html`<div class="failure" role="alert">This token is none that the node knows.</div>`}
    <label>Token <input type="password" name="token" autocomplete="current-password" autofocus value=${value} onInput=${(e) => set(e.target.value)} /></label>
    <button class="primary" disabled=${!value.trim()}>Log in</button>
    <p class="dim">It is kept in this tab until it is closed.</p>
  </form></main>`;
}

function toggle_theme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("caravan.theme", next);
  } catch {
    // It then lasts until the page is left.
  }
  dispatchEvent(new Event("caravan-theme"));
}

function Help({ shown, close }) {
  if (!shown) return null;
  return html`<div class="help" onClick=${close}><div>
    <h2>Keys</h2>
    <dl class="facts">
      ${shown.map((p) => html`<div><dt><kbd>g</kbd> <kbd>${p.key}</kbd></dt><dd>${p.title}</dd></div>`)}
      <div><dt><kbd>/</kbd></dt><dd>filter or search</dd></div>
      <div><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next, previous row; <kbd>Enter</kbd> opens it</dd></div>
      <div><dt><kbd>u</kbd></dt><dd>up</dd></div>
      <div><dt><kbd>d</kbd></dt><dd>dark or light</dd></div>
      <div><dt><kbd>?</kbd></dt><dd>this; <kbd>Esc</kbd> closes it</dd></div>
    </dl></div></div>`;
}

function use_keys(shown, set_help) {
  useEffect(() => {
    let after_g = false;
    const press = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
      if (e.key === "Escape") {
        set_help(false);
        document.activeElement?.blur?.();
        return;
      }
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
      if (after_g) {
        after_g = false;
        const page = shown.find((p) => p.key === e.key);
        if (page) go({ page: page.name });
        return;
      }
      const links = [...document.querySelectorAll("a.row-link")];
      const at = links.indexOf(document.activeElement);
      const act = {
        g: () => (after_g = true),
        "/": () => document.querySelector("[data-search]")?.focus(),
        "?": () => set_help((h) => !h),
        d: toggle_theme,
        j: () => links[Math.min(at + 1, links.length - 1)]?.focus(),
        k: () => links[Math.max(at - 1, 0)]?.focus(),
        u: () => document.querySelector("h1 a")?.click(),
      }[e.key];
      if (!act) return;
      e.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [shown.length]);
}

function Shell({ me, has, log_out }) {
  const url = use_url();
  const [menu, set_menu] = useState(false);
  const [help, set_help] = useState(false);
  const shown = pages.filter((p) => !p.probe || has[p.name]);
  use_keys(shown, set_help);
  useEffect(() => start_stream(), []);
  useEffect(() => set_menu(false), [url.page, url.queue, url.job]);

  const name = url.page ?? "overview";
  const [list, failure, again] = use_get("/v1/queues", { every: ["overview", "queues", "cluster"].includes(name) ? 2000 : 5000 });
  const [ready] = use_get("/readyz", { every: 5000 });
  const [node] = use_get("/v1/node", { every: 10000 });
  const [cluster] = use_get(has.cluster ? "/v1/cluster" : "/v1/me", { every: 5000 });
  const [cron] = use_get(has.schedules ? "/v1/cron" : "/v1/me", { every: 10000 });
  const shared = { queues: list?.queues ?? null, failure, again, ready, node, cluster: has.cluster ? cluster : null, cron: has.schedules ? cron : null };
  const may = { admin: me.roles.includes("admin"), push: me.roles.includes("push"), work: me.roles.includes("work") };

  const page = pages.find((p) => p.name === name);
  const View = hidden_pages[name] ?? page?.view;
  const current = page_above[name] ?? name;
  const wrong = what_is_wrong(shared);
  const bad = wrong.filter((w) => w.tone === "bad").length;
  useEffect(() => {
    const what = url.job ?? url.queue ?? page?.title ?? "Caravan";
    document.title = `${bad ? `(${bad}) ` : ""}${what} · ${node?.name ?? "Caravan"}`;
  });
  const role = may.admin ? "admin" : [may.push && "push", may.work && "work"].filter(Boolean).join(", ") || "read";
  return html`
    <header>
      <button class="menu-button" aria-label="menu" aria-expanded=${menu} onClick=${() => set_menu(!menu)}>☰</button>
      <a class="brand" href="?page=overview"><img src="icon.svg" alt="" width="22" height="22" /> Caravan</a>
      <span class="node-name">${node?.name ?? ""}</span>
      ${failure ? html`<${Badge} tone="bad" title=${failure.message}>no answer<//>` : ready && !ready.ready ? html`<${Badge} tone="bad">not ready<//>` : null}
      <span class="fill"></span>
      ${!may.admin && html`<${Badge} tone="soft" title="what your token may do">${role}<//>`}
      <button class="plain" title="dark or light (d)" aria-label="dark or light" onClick=${toggle_theme}>◐</button>
      <button class="plain" title="keys (?)" aria-label="keys" onClick=${() => set_help(true)}>?</button>
      ${me.login && html`<button class="small" onClick=${log_out}>Log out</button>`}
    </header>
    <nav class=${`side ${menu ? "open" : ""}`} aria-label="pages">
      ${shown.map((p) => html`<a href=${href({ page: p.name })} class=${p.name === current ? "current" : ""} aria-current=${p.name === current ? "page" : undefined}>${p.title}${p.name === "overview" && wrong.length ? html`<span class=${`count ${bad ? "bad" : "warm"}`}>${wrong.length}</span>` : ""}</a>`)}
      <span class="fill"></span>
      <span class="version dim">${node ? `version ${node.version}` : ""}</span>
    </nav>
    <main id="main">
      ${page && !url.task && html`<h1>${page.title}</h1>`}
      ${View ? html`<${View} key=${`${name} ${url.queue ?? ""} ${url.job ?? ""} ${url.task ?? ""}`} url=${url} shared=${shared} may=${may} has=${has} />` : html`<div class="empty">There is no page “${name}”. <a href="?page=overview">Overview</a></div>`}
    </main>
    <${Help} shown=${help ? shown : null} close=${() => set_help(false)} />
    <${Dialogs} />`;
}

function App() {
  const [state, set] = useState({ loading: true });
  const look = async () => {
    try {
      const { me, has } = await find_out();
      set({ me, has, login: me.login && !me.roles.length, wrong: me.login && !me.roles.length && has_token() });
    } catch (failure) {
      set({ failure });
      setTimeout(look, 3000);
    }
  };
  useEffect(() => {
    look();
    return on_unauthorized(() => set((s) => ({ ...s, login: true, wrong: has_token() })));
  }, []);
  if (state.failure) return html`<main class="login"><div><${Failure} failure=${state.failure} again=${look} /></div></main>`;
  if (state.loading) return html`<main class="login"><div class="dim" aria-busy="true">…</div></main>`;
  if (state.login) return html`<${Login} wrong=${state.wrong} done=${look} />`;
  const log_out = () => {
    set_token(null);
    look();
  };
  return html`<${Shell} me=${state.me} has=${state.has} log_out=${log_out} />`;
}

document.querySelector("#app").replaceChildren();
render(html`<${App} />`, document.querySelector("#app"));

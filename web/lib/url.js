// All state of a view is in the query of the URL: back, reload and sharing keep it.
import { useEffect, useState } from "./html.js";

const moved = new EventTarget();
export const params = () => Object.fromEntries(new URLSearchParams(location.search));

export function href(state) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(state))
    if (value !== undefined && value !== null && value !== "") query.set(name, value);
  return `?${query}`;
}

export function go(state, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href(state));
  moved.dispatchEvent(new Event("moved"));
  if (!replace) window.scrollTo(0, 0);
}
/// Changes some of it and stays on the page.
export const change = (some) => go({ ...params(), ...some }, { replace: true });

export function use_url() {
  const [state, set] = useState(params());
  useEffect(() => {
    const look = () => set(params());
    moved.addEventListener("moved", look);
    addEventListener("popstate", look);
    return () => {
      moved.removeEventListener("moved", look);
      removeEventListener("popstate", look);
    };
  }, []);
  return state;
}

/// Links within the dashboard need no new page.
addEventListener("click", (e) => {
  const link = e.target.closest?.("a[href^='?']");
  if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey) return;
  e.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  moved.dispatchEvent(new Event("moved"));
  window.scrollTo(0, 0);
});

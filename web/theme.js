// Before the first paint, so that a dark page does not flash.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("caravan.theme");
  } catch {
    // Storage may be forbidden; the system's choice holds then.
  }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

// Time series with uPlot.
import uPlot from "../vendor/uplot.js";
import { html, useEffect, useRef } from "./html.js";
import { short_count } from "./format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/// series: [{ label, values, tone: "good"|"bad"|"plain"|"warm"|"soft", unit }]; at: seconds since 1970.
/// The last `span` seconds are shown, or from when something is known, but two minutes at least.
export function Chart({ at, series, span, height = 150, unit = "", title }) {
  const box = useRef(null);
  const plot = useRef(null);
  const shape = series.map((s) => s.label).join("|");
  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      const axis = {
        stroke: colour("--dim"),
        grid: { stroke: colour("--line"), width: 1 },
        ticks: { show: false },
        font: "11px system-ui, sans-serif",
      };
      plot.current = new uPlot(
        {
          width: Math.max(200, box.current.clientWidth),
          height,
          cursor: { y: false, points: { size: 6 } },
          legend: { live: true },
          scales: {
            x: {
              range: (u) => {
                const now = Date.now() / 1000;
                return [Math.max(now - span, Math.min(u.data[0][0] ?? 0, now - 120)), now];
              },
            },
            y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 0) * 1.08)] },
          },
          axes: [{ ...axis, size: 30, space: 70, values: (_, all) => all.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(all[1] - all[0] < 60 ? { second: "2-digit" } : {}) })) }, { ...axis, size: 48, values: (_, all) => all.map((v) => short_count(v)) }],
          series: [
            { label: "", value: (_, t) => (t ? new Date(t * 1000).toLocaleTimeString() : "") },
            ...series.map((s) => ({
              label: s.label,
              stroke: colour(`--${s.tone}`),
              fill: s.fill ? `${colour(`--${s.tone}`)}22` : undefined,
              width: 1.5,
              points: { show: false },
              value: (_, v) => (v === null || v === undefined ? "–" : `${v < 10 ? +v.toFixed(2) : short_count(Math.round(v))}${unit}`),
            })),
          ],
        },
        [at, ...series.map((s) => s.values)],
        box.current,
      );
    };
    make();
    const watch = new ResizeObserver(() => {
      const width = box.current?.clientWidth;
      if (width > 0 && plot.current && Math.abs(plot.current.width - width) > 1) plot.current.setSize({ width, height });
    });
    watch.observe(box.current);
    addEventListener("caravan-theme", make);
    return () => {
      watch.disconnect();
      removeEventListener("caravan-theme", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height, span]);
  useEffect(() => {
    plot.current?.setData([at, ...series.map((s) => s.values)]);
  }, [at]);
  return html`<figure class="chart">
    <figcaption>${title}</figcaption>
    <div ref=${box} role="img" aria-label=${title}></div>
  </figure>`;
}

/// A line as large as a word.
export function Spark({ values, tone = "plain" }) {
  if (!values || values.length < 2) return html`<span class="spark"></span>`;
  const most = Math.max(1, ...values);
  const points = values.map((v, i) => `${((100 * i) / (values.length - 1)).toFixed(1)},${(19 - (17 * v) / most).toFixed(1)}`).join(" ");
  return html`<svg class=${`spark ${tone}`} viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true"><polyline points=${points} /></svg>`;
}

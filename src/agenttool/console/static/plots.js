// Small plots as SVG, each with a sentence that says the same.
import { html, useId } from "./html.js";
import { moment } from "./time.js";

const WIDTH = 320, HEIGHT = 72, PAD = 2;

/**
 * Bars over time, stacked.
 * @param {{title: string, sentence: string, value: string, buckets: {at: string}[], series: {name: string, tone: string, of: (bucket: object) => number}[]}} props
 */
export function BarPlot({ title, sentence, value, buckets, series, bucketSeconds }) {
  const totals = buckets.map((bucket) => series.reduce((sum, each) => sum + (each.of(bucket) ?? 0), 0));
  const top = Math.max(1, ...totals), step = WIDTH / Math.max(1, buckets.length);
  const bars = buckets.map((bucket, index) => {
    let floor = HEIGHT - PAD;
    return series.map(({ of, tone }) => {
      const amount = of(bucket) ?? 0;
      if (amount === 0) return null;
      const height = Math.max(1.5, (amount / top) * (HEIGHT - 2 * PAD));
      floor -= height;
      return html`<rect class="plot-${tone}" x=${index * step + step * 0.1} y=${floor} width=${step * 0.8} height=${height} rx="1" />`;
    });
  });
  return html`<${Plot} title=${title} sentence=${sentence} value=${value} series=${series} buckets=${buckets}
      bucketSeconds=${bucketSeconds}>${bars}<//>`;
}

/** Lines over time; a short gap without values is bridged, a long one is left open. */
export function LinePlot({ title, sentence, value, buckets, series, bucketSeconds }) {
  const numbers = buckets.flatMap((bucket) => series.map(({ of }) => of(bucket)).filter((each) => each !== null && each !== undefined));
  const top = Math.max(1e-9, ...numbers), step = WIDTH / Math.max(1, buckets.length);
  const place = (number) => HEIGHT - PAD - (number / top) * (HEIGHT - 2 * PAD - 4);
  const lines = series.map(({ of, tone }) => {
    let last = null, path = "";
    buckets.forEach((bucket, index) => {
      const number = of(bucket);
      if (number === null || number === undefined) return;
      const x = (index + 0.5) * step, y = place(number);
      const isNear = last !== null && index - last <= buckets.length / 6;
      path += isNear ? `L${x.toFixed(1)} ${y.toFixed(1)}` : `M${(x - 2).toFixed(1)} ${y.toFixed(1)}h4`;
      last = index;
    });
    return html`<path class="plot-line plot-line-${tone}" d=${path} />`;
  });
  return html`<${Plot} title=${title} sentence=${sentence} value=${value} series=${series} buckets=${buckets}
      bucketSeconds=${bucketSeconds}>${lines}<//>`;
}

function Plot({ title, sentence, value, series, buckets, children }) {
  const name = useId();
  return html`<figure class="plot card">
    <figcaption><span class="plot-title">${title}</span><span class="plot-value">${value}</span></figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-labelledby=${name}>
      <title id=${name}>${title}: ${sentence}</title>
      <line class="plot-floor" x1="0" x2=${WIDTH} y1=${HEIGHT - 1} y2=${HEIGHT - 1} />
      ${children}
    </svg>
    <div class="plot-legend">
      <span>${buckets.length > 0 ? moment(buckets[0].at, { withDate: false }).slice(0, 5) : ""}</span>
      <span>${series.length > 1 && series.map(({ name: text, tone }) => html`<span class="key"><i class="swatch plot-swatch-${tone}">
          </i>${text}</span>`)}</span>
      <span>now</span>
    </div>
  </figure>`;
}

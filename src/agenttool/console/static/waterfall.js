// The phases of a call over time, as bars and as words.
import { html } from "./html.js";
import { STATUSES, wordsOf } from "./statuses.js";
import { Text } from "./text.js";
import { duration, moment, seconds } from "./time.js";

/** @param {{phases: {name: string, at: string, duration_s: number|null}[], isOpen: boolean, isDependent: boolean}} props the end of a call is no phase of its own */
export function Waterfall({ phases: all, isOpen, isDependent }) {
  const phases = all.filter(({ name }) => !STATUSES[name]?.isEnd);
  const words = (name) => (name === "planned" && isDependent ? "wait for other calls" : STATUSES[name]?.phase ?? wordsOf(name));
  if (phases.length === 0) return html`<p class="muted">No phases are recorded.</p>`;
  const begin = Math.min(...phases.map(({ at }) => seconds(at)));
  const ends = phases.map(({ at, duration_s: took }) => (took === null ? (isOpen ? Date.now() / 1000 : seconds(at)) : seconds(at) + took));
  const span = Math.max(1e-6, Math.max(...ends) - begin);
  return html`<table class="waterfall"><caption class="sr-only">Phases of the call</caption>
    <thead><tr><th scope="col">Phase</th><th scope="col" class="number">Start</th><th scope="col" class="number">Took</th><th scope="col">
        <span class="sr-only">Bar</span></th></tr></thead>
    <tbody>${phases.map(({ name, at, duration_s: took }, index) => {
      const left = ((seconds(at) - begin) / span) * 100, width = ((ends[index] - seconds(at)) / span) * 100;
      const kind = STATUSES[name]?.isWait || (name === "planned" && isDependent) ? "wait" : name === "running" ? "busy" : "plain";
      return html`<tr key=${index}>
        <th scope="row"><${Text} value=${words(name)} /></th>
        <td class="number" title=${moment(at, { withMillis: true })}>+${duration(seconds(at) - begin)}</td>
        <td class="number">${took === null ? (isOpen ? "still" : "–") : duration(took)}</td>
        <td class="track" aria-hidden="true"><span class="fill ${kind}"
            style=${{ marginLeft: `${Math.min(99, left)}%`, width: `max(3px, ${Math.min(100 - left, width)}%)` }}></span></td>
      </tr>`;
    })}</tbody></table>`;
}

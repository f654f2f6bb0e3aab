// The phases of a call over time, as bars and as words.
import { html } from "./html.js";
import { Text } from "./text.js";
import { duration, moment } from "./time.js";

/** @param {{phases: {name: string, at: string, duration_s: number|null}[]}} props */
export function Waterfall({ phases, isOpen }) {
  if (phases.length === 0) return html`<p class="muted">No phases are recorded.</p>`;
  const begin = Math.min(...phases.map(({ at }) => Date.parse(at)));
  const ends = phases.map(({ at, duration_s: seconds }) => (seconds === null ? (isOpen ? Date.now() : Date.parse(at)) : Date.parse(at) + seconds * 1000));
  const span = Math.max(1e-3, Math.max(...ends) - begin);
  return html`<table class="waterfall"><caption class="sr-only">Phases of the call</caption>
    <thead><tr><th scope="col">Phase</th><th scope="col" class="number">Start</th><th scope="col" class="number">Took</th><th scope="col"><span class="sr-only">Bar</span></th></tr></thead>
    <tbody>${phases.map(({ name, at, duration_s: seconds }, index) => {
      const left = ((Date.parse(at) - begin) / span) * 100, width = ((ends[index] - Date.parse(at)) / span) * 100;
      const kind = /approv|permission|wait/.test(name) ? "wait" : /execut|run/.test(name) ? "busy" : "plain";
      return html`<tr>
        <th scope="row"><${Text} value=${name.replaceAll("_", " ")} /></th>
        <td class="number" title=${moment(at, { withMillis: true })}>+${duration((Date.parse(at) - begin) / 1000)}</td>
        <td class="number">${seconds === null ? (isOpen ? "still" : "–") : duration(seconds)}</td>
        <td class="track" aria-hidden="true"><span class="fill ${kind}" style=${{ marginLeft: `${Math.min(99, left)}%`, width: `max(3px, ${Math.min(100 - left, width)}%)` }}></span></td>
      </tr>`;
    })}</tbody></table>`;
}

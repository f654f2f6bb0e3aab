// Times: one clock, and one choice of UTC or local time for all pages.
import { html, signal, useEffect } from "./html.js";

const KEY = "agenttool.zone";

/** "utc" or "local"; the reader's choice is stored in this browser. */
export const zone = signal(localStorage.getItem(KEY) === "utc" ? "utc" : "local");

export function setZone(name) {
  zone.value = name;
  localStorage.setItem(KEY, name);
}

/** The time of this moment in milliseconds; it ticks once a second while a component uses it. */
export const now = signal(Date.now());
let users = 0, timer = null;

/** Return the time of this moment, and render again each second. */
export function useNow() {
  useEffect(() => {
    users += 1;
    timer ??= setInterval(() => { now.value = Date.now(); }, 1000);
    return () => {
      users -= 1;
      if (users === 0) { clearInterval(timer); timer = null; }
    };
  }, []);
  return now.value;
}

const two = (number) => String(number).padStart(2, "0");

/** Return a moment as "2026-11-17 08:41:02", in the chosen zone; `withDate` false leaves the date out. */
export function moment(at, { withDate = true, withMillis = false } = {}) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  const get = (name) => (zone.value === "utc" ? date[`getUTC${name}`]() : date[`get${name}`]());
  const day = `${get("FullYear")}-${two(get("Month") + 1)}-${two(get("Date"))}`;
  const millis = withMillis ? `.${String(get("Milliseconds")).padStart(3, "0")}` : "";
  const clock = `${two(get("Hours"))}:${two(get("Minutes"))}:${two(get("Seconds"))}${millis}`;
  return withDate ? `${day} ${clock}` : clock;
}

/** Return a moment as seconds since 1970, with its microseconds, which a Date drops. */
export function seconds(at) {
  const fraction = /\.(\d+)/.exec(at)?.[1] ?? "0";
  return Math.floor(Date.parse(at) / 1000) + Number(`0.${fraction}`);
}

/** Return seconds as a duration for people: "340 µs", "12 ms", "3.4 s", "2 min 5 s", "3 h 10 min", "4 d 2 h". */
export function duration(length) {
  if (length === null || length === undefined || Number.isNaN(length)) return "–";
  const value = Math.abs(length);
  if (value < 1e-6) return "0 ms";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${value < 0.01 ? (value * 1000).toFixed(1) : Math.round(value * 1000)} ms`;
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** Show a moment; within the last day as "3 min ago" if `relative`, with the full time as its title. */
export function Time({ at, relative = false }) {
  if (!at) return html`<span class="muted">–</span>`;
  const full = `${moment(at, { withMillis: true })} ${zone.value === "utc" ? "UTC" : "local time"}`;
  return html`<time datetime=${at} title=${full}>${relative ? html`<${Ago} at=${at} />` : moment(at)}</time>`;
}

function Ago({ at }) {
  const age = (useNow() - Date.parse(at)) / 1000;
  if (age > 86400) return moment(at);
  if (age < 5) return "just now";
  if (age < 60) return `${Math.floor(age)} s ago`;
  if (age < 3600) return `${Math.floor(age / 60)} min ago`;
  return `${Math.floor(age / 3600)} h ago`;
}

/** Show how long until a moment, with a warning color in the last minute. */
export function Countdown({ until }) {
  const left = (Date.parse(until) - useNow()) / 1000;
  const title = `${moment(until)} ${zone.value === "utc" ? "UTC" : "local time"}`;
  if (left <= 0) return html`<time class="urgent" datetime=${until} title=${title}>expired</time>`;
  return html`<time class=${left < 60 ? "urgent" : ""} datetime=${until} title=${title}>expires in ${duration(Math.ceil(left))}</time>`;
}

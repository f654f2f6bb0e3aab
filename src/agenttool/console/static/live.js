// One event stream for all tabs of a browser. The tab that holds the lock reads it and passes events to the others.
import { signal } from "./html.js";
import { loginWanted } from "./api.js";
import { readStream } from "./stream.js";

const LOCK = "agenttool.events";
const FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 15000;

/** "off", "connecting" or "open". */
export const state = signal("off");
/** Whether this tab reads the stream for all. */
export const isLeader = signal(false);

const channel = new BroadcastChannel(LOCK);
const listeners = new Set();
let last = null;
let started = null;

/** Call `listener({event, id, data})` for each event; returns the function that ends it. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Start to take part; of all tabs, one reads the stream. */
export function startLive() {
  if (started) return;
  started = new AbortController();
  state.value = "connecting";
  channel.postMessage({ kind: "hello" });
  navigator.locks.request(LOCK, { signal: started.signal }, () => lead(started.signal)).catch(() => {});
}

/** Stop: after a logout, or when the reader's role may not read events. */
export function stopLive() {
  started?.abort();
  started = null;
  isLeader.value = false;
  state.value = "off";
}

channel.onmessage = ({ data }) => {
  if (!started) return;
  if (data.kind === "event") deliver(data.event);
  else if (data.kind === "state") state.value = data.state;
  else if (data.kind === "hello" && isLeader.value) channel.postMessage({ kind: "state", state: state.value });
};

async function lead(abort) {
  isLeader.value = true;
  let wait = FIRST_WAIT_MS, isFirst = true;
  while (!abort.aborted) {
    const after = last;
    let status = 0;
    try {
      status = await readStream("/v1/events", {
        after, abort,
        onEvent: (event) => {
          wait = FIRST_WAIT_MS;
          if (event.event === "ready") {
            announce("open");
            if (after === null && !isFirst) share({ event: "reset", id: null, data: {} });
          }
          share(event);
        },
      });
    } catch {
      if (abort.aborted) return;
    }
    isFirst = false;
    if (status === 401 || status === 403) {
      if (status === 401) loginWanted.value = true;
      announce("off");
      return;
    }
    announce("connecting");
    await new Promise((resolve) => setTimeout(resolve, wait * (0.75 + Math.random() / 2)));
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

function announce(name) {
  state.value = name;
  channel.postMessage({ kind: "state", state: name });
}

function share(event) {
  channel.postMessage({ kind: "event", event });
  deliver(event);
}

function deliver(event) {
  if (event.id !== null) last = event.id;
  if (event.event === "closed" && event.data.reason === "revoked") loginWanted.value = true;
  for (const listener of listeners) listener(event);
}

// Data of a page: loaded from the API, and loaded again when an event says that it may have changed.
import { useEffect, useMemo, useRef, signal } from "./html.js";
import { get } from "./api.js";
import { listen, state } from "./live.js";

const QUIET_MS = 250;  // events within this time are answered by one request
const WITHOUT_EVENTS_MS = 5000;

/**
 * Load a path of the API for a component.
 * @param {string|null} path null loads nothing
 * @param {{when?: (event: object) => boolean, every?: number, quiet?: number}} options `when` says which events load again,
 *   at most once in `quiet` milliseconds; `every` loads again after so many milliseconds, too
 * @returns {{data: any, error: Error|null, isLoading: boolean, reload: () => void}} the last data stays while new data loads
 */
export function useResource(path, { when, every, quiet = QUIET_MS } = {}) {
  const held = useMemo(() => signal({ data: null, error: null, isLoading: true, path: null }), []);
  const loader = useRef(null);
  const condition = useRef(when);
  condition.current = when;
  useEffect(() => {
    if (path === null) return undefined;
    loader.current = startLoader(path, held, condition, { every, quiet });
    return loader.current.stop;
  }, [path]);
  const { data, error, isLoading, path: loaded } = held.value;
  const isOld = loaded !== path;
  return { data, error: isOld ? null : error, isLoading: isLoading || isOld, reload: () => loader.current?.load() };
}

function startLoader(path, held, condition, { every, quiet }) {
  let abort = null, timer = null, isWanted = false, isBusy = false;

  async function load() {
    if (isBusy) { isWanted = true; return; }
    isBusy = true;
    isWanted = false;
    abort = new AbortController();
    const mine = abort;
    try {
      const data = await get(path, mine.signal);
      held.value = { data, error: null, isLoading: false, path };
    } catch (error) {
      if (mine.signal.aborted) return;
      const isSame = held.value.path === path;
      held.value = { data: isSame ? held.value.data : null, error, isLoading: false, path };
    }
    isBusy = false;
    if (isWanted) soon();
  }

  function soon() {
    timer ??= setTimeout(() => { timer = null; load(); }, quiet);
  }

  const unlisten = listen((event) => {
    if (event.event === "reset" || event.event === "ready" || condition.current?.(event)) soon();
  });
  const polling = setInterval(() => {
    if (!document.hidden && (every || state.value !== "open" || held.value.error)) soon();
  }, every ?? WITHOUT_EVENTS_MS);
  load();
  return {
    load,
    stop: () => { unlisten(); clearInterval(polling); clearTimeout(timer); abort?.abort(); },
  };
}

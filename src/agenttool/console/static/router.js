// The address is the state: the page is its path, the filters are its query. No router library.
import { html, signal, computed } from "./html.js";

const address = signal(location.pathname + location.search);
addEventListener("popstate", () => { address.value = location.pathname + location.search; });

/** The path of the page, such as "/calls". */
export const path = computed(() => address.value.split("?")[0]);

/** The filters of the page. */
export const query = computed(() => new URLSearchParams(address.value.split("?")[1] ?? ""));

/** Go to an address of the console. */
export function navigate(to, { replace = false } = {}) {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  const moved = to.split("?")[0] !== path.value;
  address.value = to;
  if (moved) {
    scrollTo(0, 0);
    requestAnimationFrame(() => document.querySelector("h1")?.focus({ preventScroll: true }));
  }
}

/** Change some filters in the address; an empty value removes one. */
export function setQuery(changes) {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    for (const each of Array.isArray(value) ? value : [value]) if (each) next.append(name, each);
  }
  const text = next.toString();
  navigate(path.value + (text ? `?${text}` : ""), { replace: true });
}

/** A link within the console; with a modifier key the browser opens it in a new tab as usual. */
export function Link({ to, children, ...rest }) {
  const follow = (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0) return;
    event.preventDefault();
    navigate(to);
  };
  return html`<a href=${to} onClick=${follow} ...${rest}>${children}</a>`;
}

// Requests to the HTTP API. A failed request is a `Problem` with the fields of the problem document.
import { signal } from "./html.js";

/** A refused or failed request: `status`, `title`, `detail`, and where given `pointer`, `reason`, `answered_by`. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The server answered ${status}.`);
    Object.assign(this, document, { name: "Problem", status });
  }
}

const PAGE_KEY = "agenttool.page_key";

/** Store the page's part of the session's secret for all tabs; null deletes it. Unlike a cookie, no other port gets it. */
export function setPageKey(key) {
  if (key === null) localStorage.removeItem(PAGE_KEY);
  else localStorage.setItem(PAGE_KEY, key);
}

/** Return the headers that prove the session, together with the cookie. */
export function sessionHeaders() {
  const key = localStorage.getItem(PAGE_KEY);
  return key === null ? {} : { "agenttool-page-key": key };
}

/** Whether the server wants a login, because it answered 401. */
export const loginWanted = signal(false);

/** Send a request and return its JSON body, or null if it has none. Raises Problem. */
export async function request(method, path, { body, signal: abort, headers } = {}) {
  const response = await send(method, path, { body, abort, headers });
  if (!response.ok) throw await problemOf(response);
  if (response.status === 204) return null;
  return response.json();
}

/** Return part of a payload: `{bytes, total}`. Raises Problem. */
export async function requestBytes(path, first, last, abort) {
  const response = await send("GET", path, { abort, headers: { range: `bytes=${first}-${last}` } });
  if (!response.ok) throw await problemOf(response);
  const total = Number(/\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1]);
  if (response.status === 206) return { bytes: new Uint8Array(await response.arrayBuffer()), total };
  return readUpTo(response, last + 1);
}

/** Return a whole payload as a blob. Raises Problem. */
export async function requestBlob(path) {
  const response = await send("GET", path, { headers: { accept: "*/*" } });
  if (!response.ok) throw await problemOf(response);
  return response.blob();
}

/** Read at most `limit` bytes of an answer that ignored the range, then stop the download. */
async function readUpTo(response, limit) {
  const reader = response.body.getReader(), parts = [];
  let size = 0;
  while (size < limit) {
    const { done, value } = await reader.read();
    if (done) return { bytes: joined(parts, size), total: size };
    parts.push(value);
    size += value.length;
  }
  await reader.cancel();
  const length = Number(response.headers.get("content-length"));
  return { bytes: joined(parts, size).slice(0, limit), total: Number.isNaN(length) || !length ? null : length };
}

function joined(parts, size) {
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) { all.set(part, at); at += part.length; }
  return all;
}

async function send(method, path, { body, abort, headers = {} }) {
  const options = { method, signal: abort, credentials: "same-origin", headers: { accept: "application/json", ...sessionHeaders(), ...headers } };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  try {
    const response = await fetch(path, options);
    if (response.status === 401) loginWanted.value = true;
    return response;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { title: "Not reachable", detail: "The server cannot be reached. The page tries again by itself." });
  }
}

async function problemOf(response) {
  const found = await response.json().catch(() => ({}));
  return new Problem(response.status, typeof found === "object" && found ? found : {});
}

export const get = (path, abort) => request("GET", path, { signal: abort });
export const post = (path, body = {}) => request("POST", path, { body });
export const remove = (path) => request("DELETE", path);

/** Return a path with a query; empty values are left out. */
export function withQuery(path, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== undefined && each !== "") query.append(name, each);
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

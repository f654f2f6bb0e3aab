// Outgoing requests: one attempt, or as many as the delivery matrix (1.5) allows.

import http from "node:http";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { encode } from "./json.mjs";

const MAX_REPLY = 4 * 1024 * 1024;

/** Why no reply came: refused, cut, too late, or an address nobody may contact. */
export class Unreachable extends Error {}

/** RAP-412: only http and https are contacted. */
export function isWebUrl(text) {
  return typeof text === "string" && /^https?:\/\/[^/?#]/i.test(text) && URL.canParse(text);
}

/** These programs stay on this machine; the policy hook of RAP-412 for every address that comes from outside. */
export function isLoopback(text) {
  return isWebUrl(text) && ["127.0.0.1", "localhost", "[::1]"].includes(new URL(text).hostname);
}

/** RAP-001: every body is labeled. A redirect is a reply like any other and never followed (RAP-409). */
export function post(url, object, { timeout = 15_000, headers = {} } = {}) {
  return request("POST", url, encode(object), { timeout, headers: { "Content-Type": "application/json", ...headers } });
}

export function get(url, { timeout = 15_000, headers = {} } = {}) {
  return request("GET", url, null, { timeout, headers: { Accept: "application/json", ...headers } });
}

/** Send bytes as they are and resolve to `{status, bytes, headers}`. */
export function request(method, url, bytes, { timeout, headers }) {
  if (!isWebUrl(url)) return Promise.reject(new Unreachable("only http and https addresses are contacted"));
  const { protocol, hostname, port } = new URL(url);
  const options = {
    method,
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port,
    path: rawPath(url),
    headers: { ...headers, ...(bytes && { "Content-Length": bytes.length }) },
    signal: AbortSignal.timeout(timeout),
    agent: false, // a kept connection may die just when it is used again, which looks like a fault of the peer
  };
  return new Promise((resolve, reject) => {
    const fail = (fault) => reject(new Unreachable(fault.code ?? fault.name));
    try {
      const outgoing = (protocol === "https:" ? https : http).request(options, (reply) => {
        collect(reply).then((body) => resolve({ status: reply.statusCode, bytes: body, headers: reply.headers }), fail);
      });
      outgoing.on("error", fail).end(bytes ?? undefined);
    } catch (fault) {
      fail(fault);
    }
  });
}

/** RAP-006: path and query byte for byte, where parsing would rewrite dots and escapes. */
function rawPath(url) {
  const path = /^https?:\/\/[^/?#]*([^#]*)/i.exec(url)[1];
  return path.startsWith("/") ? path : `/${path}`;
}

async function collect(reply) {
  const chunks = [];
  let size = 0;
  for await (const chunk of reply) {
    size += chunk.length;
    if (size <= MAX_REPLY) chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * Try until something other than a 5xx comes back; exponential backoff with full jitter (RAP-032, RAP-110).
 *
 * Resolves to the last reply, or rejects with the last `Unreachable`. `enough()` ends the attempts early.
 */
export async function persist(attempt, { attempts = Infinity, first = 500, cap = 30_000, enough = () => false } = {}) {
  for (let tried = 1; ; tried += 1) {
    const last = tried >= attempts;
    try {
      const reply = await attempt(tried);
      if (reply.status < 500 || last || enough()) return reply;
    } catch (fault) {
      if (!(fault instanceof Unreachable) || last || enough()) throw fault;
    }
    await sleep(Math.random() * Math.min(cap, first * 2 ** (tried - 1)));
    if (enough()) return { status: 0 };
  }
}

// A small HTTP server on loopback: a table of routes, and the refusals that every endpoint shares.

import { createServer } from "node:http";
import { Malformed, decodeObject } from "./json.mjs";

const MAX_BODY = 4 * 1024 * 1024;

/**
 * Serve `routes` on 127.0.0.1 and resolve to the server once its port is known.
 *
 * A route is `{method, path, handle}`; `path` is a string, or a regular expression whose groups reach the handler.
 * A handler takes `{body, groups, query, headers}` and returns `{status, body?, headers?, after?, hangUp?}`. `after`
 * runs when the reply has been handed over, whether or not it ever arrives (E49); `hangUp` cuts the connection.
 */
export async function listen(routes, { port = 0 } = {}) {
  const server = createServer((request, response) => {
    answer(routes, request).then(
      (reply) => send(request, response, reply),
      () => send(request, response, { status: 500 }), // E17: no traceback in a reply
    );
  });
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  return server;
}

async function answer(routes, request) {
  const bytes = await read(request); // first: a refusal that leaves a body unread may be lost with the connection
  const url = new URL(request.url, "http://loopback");
  const here = routes
    .map((route) => ({ route, groups: match(route.path, url.pathname) }))
    .filter(({ groups }) => groups);
  if (here.length === 0) return { status: 404 };
  const found = here.find(({ route }) => route.method === request.method);
  if (!found) return { status: 405, headers: { Allow: here.map(({ route }) => route.method).join(", ") } };

  const asked = { groups: found.groups, query: url.searchParams, headers: request.headers };
  if (request.method !== "POST") return found.route.handle(asked);
  if (!isJson(request.headers["content-type"])) return { status: 415 };
  if (bytes === null) return { status: 413 };
  try {
    return await found.route.handle({ ...asked, body: decodeObject(bytes) });
  } catch (fault) {
    if (fault instanceof Malformed) return { status: 400, body: { error: fault.message } };
    throw fault;
  }
}

function match(path, pathname) {
  if (typeof path === "string") return path === pathname ? [] : null;
  return path.exec(pathname)?.slice(1) ?? null;
}

/** RAP-411: an explicit label that is not JSON is refused, which stops cross-site form posts to a loopback port. */
function isJson(label) {
  if (label === undefined) return true;
  const [type, ...parameters] = label.split(";").map((part) => part.trim().toLowerCase());
  return type === "application/json" && parameters.every((part) => /^charset="?utf-?8"?$/.test(part) || part === "");
}

/** RAP-410: the rest of an oversized body is read and forgotten. */
async function read(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= MAX_BODY) chunks.push(chunk);
  }
  return size <= MAX_BODY ? Buffer.concat(chunks) : null;
}

function send(request, response, { status, body, headers = {}, after, hangUp }) {
  if (hangUp) {
    request.socket.destroy();
  } else if (typeof body === "string") {
    response.writeHead(status, { "Content-Type": "text/html; charset=utf-8", ...headers }).end(body);
  } else if (body === undefined) {
    response.writeHead(status, headers).end();
  } else {
    response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
  }
  if (after) setImmediate(after);
}

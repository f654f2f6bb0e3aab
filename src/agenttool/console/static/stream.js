// Reads one stream of server-sent events by fetch, so that headers can be sent and the status can be seen.
import { sessionHeaders } from "./api.js";

/**
 * Read events until the stream ends or is aborted.
 * @param {string} path
 * @param {{after: string|null, abort: AbortSignal, onEvent: (event: {event: string, id: string|null, data: object}) => void}} options
 * @returns {Promise<number>} the status of the answer; 200 if the stream was open and ended
 */
export async function readStream(path, { after, abort, onEvent }) {
  const headers = { accept: "text/event-stream", ...sessionHeaders() };
  if (after !== null) headers["last-event-id"] = after;
  const response = await fetch(path, { headers, signal: abort, credentials: "same-origin", cache: "no-store" });
  if (!response.ok) return response.status;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return response.status;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parseBlock(block);
      if (event) onEvent(event);
    }
  }
}

function parseBlock(block) {
  let event = "message", id = null;
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    const at = line.indexOf(":");
    const name = at < 0 ? line : line.slice(0, at);
    const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (name === "event") event = value;
    else if (name === "id") id = value;
    else if (name === "data") data.push(value);
  }
  if (data.length === 0) return null;
  try {
    return { event, id, data: JSON.parse(data.join("\n")) };
  } catch {
    return null;
  }
}

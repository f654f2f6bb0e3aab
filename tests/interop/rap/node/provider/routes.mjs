// The endpoints of 1.2 that every provider has: discovery, invocation, and the two notices.

import { isLoopback, isWebUrl } from "../wire/send.mjs";
import { keyOf } from "./call.mjs";
import { isBearer } from "./migration.mjs";

const text = (value) => typeof value === "string";

/** RAP-340, RAP-290, RAP-307: with a token, whoever lacks it is turned away; the reply tells nothing about calls. */
export function guard(token) {
  return (handle) => (asked) => (token && !isBearer(asked.headers, token) ? { status: 401 } : handle(asked));
}

export function routes({ prefix, invokePath, guarded, manifest, calls, notes, faults, log }) {
  const notice = (handle) => guarded(({ body }) => (faults.isDeaf ? ignore(body, log) : handle(body)));
  const discover = guarded(() => ({ status: 200, body: manifest() }));
  return [
    { method: "GET", path: `${prefix}/.well-known/rap-toolset`, handle: discover }, // RAP-140
    { method: "POST", path: invokePath, handle: guarded(({ body }) => invoke(body, { calls, faults, log })) },
    { method: "POST", path: `${prefix}/cancel_tool_call`, handle: notice((body) => cancel(body, { calls, log })) },
    { method: "POST", path: `${prefix}/close_thread`, handle: notice((body) => close(body, { calls, notes, log })) },
    { method: "POST", path: "/elsewhere", handle: ({ body }) => followed(body, log) },
  ];
}

/** RAP-040, RAP-041: 200 at once, everything else later; RAP-407: 400 only where no callback could ever be sent. */
function invoke(body, { calls, faults, log }) {
  if (!isWebUrl(body.callback_url) || !text(body.group_id) || !text(body.id)) {
    log({ event: "unanswerable" });
    return { status: 400, body: { error: "callback_url, group_id and id are needed to answer" } };
  }
  if (!isLoopback(body.callback_url)) return { status: 403, body: { error: "callback_url must be on this machine" } };
  const fault = faults.onInvocation(keyOf(body));
  if (fault === "refuse-first") return { status: 503 };
  if (fault?.startsWith("answer-")) return answerInstead(Number(fault.slice(7)), body, log);
  if (calls.isKnown(body)) return { status: 200 }; // E20

  const { operation, id, call_id, group_id: thread, thread_ancestors: ancestors, user_id } = body;
  log({ event: "accepted", operation, id, call_id, thread, ancestors, user_id });
  const call = calls.accept(body);
  const run = () => calls.run(call);
  if (fault === "late-ack") return run().then(() => ({ status: 200 }));
  return { status: 200, after: run, hangUp: fault === "lose-ack" };
}

function answerInstead(status, { id }, log) {
  log({ event: "answered", id, status });
  return { status, ...(status === 307 && { headers: { Location: "/elsewhere" } }) };
}

/** E46, RAP-409: only a runtime that follows a redirect ever comes here. */
function followed({ id }, log) {
  log({ event: "followed", id });
  return { status: 200 };
}

function ignore({ thread_id, tool_call_id }, log) {
  log({ event: "ignored", thread: thread_id, id: tool_call_id });
  return { status: 500 };
}

/** RAP-286, RAP-291: an empty 200, whatever is known about the call. */
function cancel({ thread_id, tool_call_id }, { calls, log }) {
  if (!text(thread_id) || !text(tool_call_id)) return { status: 400 };
  log({ event: "cancel", thread: thread_id, id: tool_call_id });
  const after = () => calls.cancel((call) => call.thread === thread_id && call.invocation.id === tool_call_id);
  return { status: 200, after };
}

/** RAP-303, RAP-304: 200 first, cleaning up afterwards. */
function close({ thread_id }, { calls, notes, log }) {
  if (!text(thread_id)) return { status: 400 };
  log({ event: "close", thread: thread_id });
  const after = () => {
    calls.cancel((call) => call.thread === thread_id);
    notes.forget(thread_id);
  };
  return { status: 200, after };
}

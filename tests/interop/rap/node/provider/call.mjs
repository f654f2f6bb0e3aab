// One accepted invocation: its identity, and the messages that may be sent about it.

import { setTimeout as sleep } from "node:timers/promises";
import { isAbsent, isObject } from "../wire/json.mjs";

/** What a tool throws to say what went wrong and what could be done (RAP-084); nothing else reaches the caller. */
export class ToolError extends Error {}

/** RAP-402, RAP-403, E19: a call is known by all three; ids repeat across threads and runtimes. */
export function keyOf({ callback_url, group_id, id }) {
  return JSON.stringify([callback_url, group_id, id]);
}

export class Call {
  #abort = new AbortController();

  constructor(invocation) {
    this.invocation = invocation;
    this.key = keyOf(invocation);
  }

  get thread() {
    return this.invocation.group_id;
  }

  /** E15: no, empty and null ancestors all mean that the thread is a root. */
  get root() {
    return this.invocation.thread_ancestors?.[0] ?? this.thread;
  }

  get signal() {
    return this.#abort.signal;
  }

  abort() {
    this.#abort.abort();
  }

  /** Wait; a cancellation cuts it short by throwing. */
  async pause(milliseconds) {
    await sleep(milliseconds, undefined, { signal: this.signal });
  }

  /** A callback with the right ids: RAP-004, RAP-070; `call_id` goes back unchanged, "" included (RAP-071, E14). */
  message(type, members) {
    const { group_id, id, call_id } = this.invocation;
    if (type === "view_update") return { type, group_id, ...members }; // RAP-265
    if (type === "subscription_event") return { type, group_id, tool_call_id: id, ...members }; // RAP-183, E13
    return { type, group_id, id, ...(!isAbsent(call_id) && { call_id }), ...members };
  }
}

/** What is wrong with an invocation that can be answered at all (RAP-047, E16); null when it is well formed. */
export function invocationFault({ operation, arguments: given, call_id, thread_ancestors, user_id }) {
  if (typeof operation !== "string") return "operation must be a string";
  if (!isObject(given)) return "arguments must be an object";
  if (!isAbsent(call_id) && typeof call_id !== "string") return "call_id must be a string or null";
  if (!isAbsent(user_id) && typeof user_id !== "string") return "user_id must be a string or null";
  const named =
    isAbsent(thread_ancestors) ||
    (Array.isArray(thread_ancestors) && thread_ancestors.every((id) => typeof id === "string"));
  return named ? null : "thread_ancestors must be a list of strings or null";
}

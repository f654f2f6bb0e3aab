// Sending invocations (3.2), and the one place where a call is settled.

import { misfits } from "../wire/conform.mjs";
import { isObject } from "../wire/json.mjs";
import { Unreachable, persist, post } from "../wire/send.mjs";
import { forModel, forPeople } from "./results.mjs";
import { rootOf } from "./threads.mjs";
import { RESERVED, credentials } from "./toolsets.mjs";

export class Dispatch {
  #world;

  /** `world` is what the parts of this runtime share: emit, threads, calls, toolsets, notices, options, faults. */
  constructor(world) {
    this.#world = world;
  }

  /** Refuse it at once with an error result, or register it and send it in the background. */
  invoke(request) {
    const { threads, calls, toolsets, emit } = this.#world;
    const { thread: name, id, tool: operation, arguments: given = {} } = request;
    const thread = threads.open(name, { ancestors: request.ancestors });
    if (thread.closed || calls.find(name, id))
      return emit({ event: "refused", thread: name, id, reason: thread.closed ? "closed" : "id is taken" }); // RAP-024

    const found = toolsets.find(rootOf(thread), operation);
    const call = calls.register({
      thread: name,
      id,
      call_id: request.call_id,
      operation,
      given,
      base: found?.server.base,
    });
    if (operation === RESERVED.cancel) return this.settle(call, this.#cancelSubscription(thread, given), "runtime");
    const fault = refusal(found, request);
    if (fault) return this.settle(call, { text: `Error: ${fault}` }, "runtime");
    calls.change(call, { body: this.#body(call, thread, request), endpoint: found.manifest.endpoint });
    emit({ event: "registered", thread: name, id });
    if (request.deadline_ms)
      setTimeout(() => this.abandon(call, "no result within the deadline", "timeout"), request.deadline_ms); // RAP-127
    return this.send(calls.find(name, id));
  }

  /** All eight fields of 2.3; RAP-028 allows leaving out what is not there, RAP-037 asks it for `user_id`. */
  #body(call, thread, { call_id, user_id }) {
    return {
      operation: call.operation,
      arguments: call.given,
      id: call.id,
      ...(call_id !== undefined && { call_id }),
      callback_url: `${this.#world.callbackBase()}/callback/${call.number}/${call.secret}`,
      group_id: thread.id,
      ...(thread.ancestors.length > 0 && { thread_ancestors: thread.ancestors }),
      ...(user_id !== undefined && { user_id }),
    };
  }

  /** RAP-404: always the same body, to the toolset's endpoint (RAP-029). A2: only 5xx and silence are tried again. */
  async send(call) {
    const { calls, faults, options, toolsets, emit } = this.#world;
    const server = toolsets.servers.find(({ base }) => base === call.base) ?? {};
    const isSettled = () => calls.find(call.thread, call.id).state === "settled"; // a callback may win the race (E1)
    const attempt = async (tried) => {
      const reply = await post(call.endpoint, call.body, { headers: credentials(server), timeout: options.timeout });
      emit({ event: "attempt", thread: call.thread, id: call.id, attempt: tried, status: reply.status });
      return reply; // RAP-030: nothing is read from its body
    };
    const outcome = await persist(attempt, { ...options.pace, enough: isSettled }).catch((fault) => {
      if (fault instanceof Unreachable) return { status: fault.message };
      throw fault;
    });
    if (faults.has("invoke-twice")) await attempt(0).catch(() => {});
    emit({
      event: "audit",
      operation: call.operation,
      id: call.id,
      at: new Date().toISOString(),
      outcome: outcome.status,
    }); // RAP-035
    if (isSettled()) return;
    if (outcome.status === 200) calls.change(call, { state: "dispatched" });
    else
      this.settle(
        call,
        { text: `Error: the tool did not accept the call (${outcome.status}); try again later` },
        "dispatch",
      ); // RAP-031, RAP-034
  }

  /** RAP-401: the first wins, in the thread's own turn; resolves to whether this one did. */
  settle(call, result, source) {
    const { threads, calls, emit, options } = this.#world;
    return threads.inTurn(call.thread, () => {
      const current = calls.find(call.thread, call.id);
      if (current.state === "settled") return false;
      const subscribed = result.subscription === true; // RAP-185
      calls.save({ ...current, state: "settled", prompt: undefined, subscription: subscribed ? "active" : undefined });
      if (current.prompt) emit({ event: "withdrawn", thread: call.thread, id: call.id }); // RAP-417, E32
      const model = forModel(result, options);
      threads.addToHistory(call.thread, { role: "tool", id: call.id, call_id: call.call_id, content: model });
      emit({
        event: "result",
        thread: call.thread,
        id: call.id,
        call_id: result.call_id,
        source,
        model,
        shown: forPeople(result),
        subscription: subscribed,
      });
      return true;
    });
  }

  /** 2.14: a synthetic result now, a notice to every server, and a later real result is dropped (A9, RAP-096). */
  async abandon(call, words, source) {
    const abandoned = await this.settle(call, { text: `Error: ${words}` }, source);
    if (abandoned) this.#world.notices.cancelled(call);
    return abandoned;
  }

  /** RAP-195 to RAP-197: only one's own subscription, and every server is told. */
  #cancelSubscription(thread, { tool_call_id }) {
    const { calls, notices } = this.#world;
    const call = typeof tool_call_id === "string" ? calls.find(thread.id, tool_call_id) : undefined;
    if (call?.subscription !== "active")
      return { text: "Error: tool_call_id names no active subscription of this thread" }; // E11
    calls.change(call, { subscription: "ended" });
    notices.cancelled(call);
    return { text: `Cancelled ${tool_call_id}.` };
  }
}

/** Why a call is not sent at all, or null: RAP-020, RAP-022, RAP-023, RAP-036, RAP-162, RAP-190. */
function refusal(found, { tool, arguments: given = {}, consent }) {
  if (tool === RESERVED.event) return "this name is reserved for events and cannot be called"; // E12
  if (!found) return `there is no tool ${JSON.stringify(tool)} in this session`;
  if (!isObject(given)) return "arguments must be an object"; // E16
  const faults = misfits(found.tool.inputSchema, given);
  if (faults.length > 0) return `arguments do not fit: ${faults.join("; ")}`;
  // RAP-420: an annotation makes the runtime more careful, whatever it says exactly.
  if (found.tool.annotations?.destructive && !consent) return "this tool is destructive and the user did not consent";
  return null;
}

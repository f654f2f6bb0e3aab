// The life of each accepted call: validate, execute, deliver (RAP-043), and never run twice (RAP-402).

import { setTimeout as sleep } from "node:timers/promises";
import { misfits } from "../wire/conform.mjs";
import { Call, ToolError, invocationFault, keyOf } from "./call.mjs";

/** A call is `accepted`, then `settled` by its result; one that opened a subscription is `subscribed` in between. */
export class Calls {
  #journal;
  #house;
  #tools;
  #log;
  #live = new Map(); // calls that are accepted or subscribed, by key

  constructor({ journal, house, tools, log }) {
    this.#journal = journal;
    this.#house = house;
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.#log = log;
  }

  isKnown(invocation) {
    return this.#journal.get(`call:${keyOf(invocation)}`) !== undefined;
  }

  /** Register before the acknowledgement: a cancellation finds it (E27), a restart continues it (RAP-061). */
  accept(invocation) {
    const call = new Call(invocation);
    this.#live.set(call.key, call);
    this.#record(call, { state: "accepted" });
    return call;
  }

  async run(call) {
    this.#log({ event: "run", operation: call.invocation.operation, id: call.invocation.id });
    const tool = this.#tools.get(call.invocation.operation);
    const outcome = await this.#outcome(call, tool);
    const subscribes = Boolean(tool?.events) && !outcome.failed; // E10
    const message = call.message("tool_result", { ...outcome.members, ...(subscribes && { subscription: true }) });
    if (subscribes) await this.#subscribe(call, tool, { undelivered: message, sent: 0 });
    else await this.#settle(call, message);
  }

  /** RAP-050, RAP-051: whatever happens there is a result; RAP-085: without internals. */
  async #outcome(call, tool) {
    try {
      const result = await this.#execute(call, tool);
      return { members: typeof result === "string" ? { text: result } : result };
    } catch (fault) {
      const known = fault instanceof ToolError;
      const words = call.signal.aborted ? "cancelled at the caller's request" : "the tool failed; try again later";
      return { failed: true, members: { text: `Error: ${known ? fault.message : words}` } };
    }
  }

  /** RAP-045, RAP-046, RAP-159: operation and arguments are checked before use; E18 names the operation. */
  async #execute(call, tool) {
    const fault = invocationFault(call.invocation);
    if (fault) throw new ToolError(`malformed invocation: ${fault}`);
    const given = call.invocation.arguments;
    if (!tool)
      throw new ToolError(`unknown operation ${JSON.stringify(call.invocation.operation)}; load the toolset anew`);
    const faults = misfits(tool.inputSchema, given);
    if (faults.length > 0) throw new ToolError(`arguments do not fit: ${faults.join("; ")}`);
    call.signal.throwIfAborted();
    return tool.run(given, call, this.#house);
  }

  async #settle(call, message) {
    this.#record(call, { state: "settled", undelivered: message });
    this.#live.delete(call.key);
    await this.#house.outbox.send(call, message);
    this.#record(call, { state: "settled" });
  }

  /** RAP-180, RAP-181: on record first, then the confirmation, and only after its 2xx the first event (RAP-405). */
  #subscribe(call, tool, progress) {
    call.flow = this.#flow(call, tool, progress);
    return call.flow;
  }

  async #flow(call, tool, { undelivered, sent }) {
    this.#record(call, { state: "subscribed", undelivered, sent });
    if (undelivered) {
      const status = await this.#house.outbox.send(call, undelivered);
      if (isGone(status)) return this.#end(call);
    }
    this.#record(call, { state: "subscribed", sent });
    try {
      await this.#pump(call, tool, sent);
    } catch {
      if (!call.signal.aborted) this.#log({ event: "subscription_failed", id: call.invocation.id });
    }
  }

  async #pump(call, tool, sent) {
    let count = sent;
    for await (const event of tool.events(call.invocation.arguments, call, sent)) {
      if (call.signal.aborted) return; // RAP-194
      const status = await this.#house.outbox.send(call, call.message("subscription_event", event));
      if (event.final || isGone(status)) return this.#end(call);
      count += 1;
      if (this.#state(call) === "subscribed") this.#record(call, { state: "subscribed", sent: count });
    }
  }

  #end(call) {
    this.#live.delete(call.key);
    this.#record(call, { state: "settled" });
    this.#log({ event: "subscription_ended", id: call.invocation.id });
  }

  /** RAP-198, RAP-288: work stops and says so; a subscription just falls silent. Unknown ids are fine (RAP-287). */
  cancel(matches) {
    for (const call of [...this.#live.values()].filter(matches)) {
      call.abort();
      if (this.#state(call) === "subscribed") this.#end(call);
    }
  }

  /** Take up what an earlier process left behind (E48, RAP-204). */
  resume() {
    for (const { invocation, state, undelivered, sent } of this.#journal.under("call:")) {
      const call = new Call(invocation);
      if (state === "settled" && undelivered) this.#settle(call, undelivered);
      if (state !== "settled") this.#live.set(call.key, call);
      if (state === "accepted") this.run(call);
      if (state === "subscribed") this.#subscribe(call, this.#tools.get(invocation.operation), { undelivered, sent });
    }
  }

  /** Open subscriptions of one session, silenced; `adopt` here or elsewhere brings them back where they stopped. */
  async release(session) {
    const moving = [...this.#live.values()].filter(
      (call) => call.root === session && this.#state(call) === "subscribed",
    );
    for (const call of moving) call.abort();
    // An event may be under way, and whoever adopts the rest would send it again: a delivery gives up after 15 s.
    await Promise.race([Promise.all(moving.map((call) => call.flow)), sleep(20_000, undefined, { ref: false })]);
    return moving.map((call) => this.#journal.get(`call:${call.key}`));
  }

  adopt(subscriptions) {
    for (const { invocation, undelivered, sent } of subscriptions) {
      const call = new Call(invocation);
      this.#live.set(call.key, call);
      this.#subscribe(call, this.#tools.get(invocation.operation), { undelivered, sent });
    }
  }

  forget(subscriptions) {
    for (const { invocation } of subscriptions) this.#end(new Call(invocation));
  }

  #state(call) {
    return this.#journal.get(`call:${call.key}`).state;
  }

  #record(call, state) {
    this.#journal.set(`call:${call.key}`, { invocation: call.invocation, ...state }); // RAP-009
  }
}

/** The runtime says that nobody listens there any more. */
const isGone = (status) => status === 404 || status === 410;

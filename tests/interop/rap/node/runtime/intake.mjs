// Where providers post back (3.5): validate, match, deduplicate, one message at a time.

import { callbackFault } from "./callbacks.mjs";
import { RESERVED } from "./toolsets.mjs";

export const FAULTS = [
  "refuse-first", // 503 to the first delivery of each message
  "reject-results", // 410 to every result, as if its URL had expired (E23)
  "lose-reply", // take each message in, then cut the connection once (a retry brings it again)
];

export class Intake {
  #world;
  #seen = new Set();

  constructor(world) {
    this.#world = world;
  }

  routes() {
    return [{ method: "POST", path: /^\/callback\/(\d+)\/([\w-]+)$/, handle: (asked) => this.#receive(asked) }];
  }

  async #receive({ groups: [number, secret], body }) {
    const { calls, emit, faults, options } = this.#world;
    const call = calls.behind(number, secret);
    if (!call) return this.#drop(404, body, "no such callback URL"); // RAP-406, RAP-099
    const fault = callbackFault(body, options);
    if (fault) {
      emit({ event: "malformed", thread: call.thread, id: call.id, reason: fault });
      return { status: 400, body: { error: fault } };
    }
    const first = this.#isFirst(body);
    if (first && faults.has("refuse-first")) return { status: 503 };
    if (body.type === "tool_result" && faults.has("reject-results")) return this.#drop(410, body, "rejected");
    const reply = await this.#take(call, body);
    return first && faults.has("lose-reply") ? { ...reply, hangUp: true } : reply;
  }

  #isFirst(body) {
    const text = JSON.stringify(body);
    const first = !this.#seen.has(text);
    this.#seen.add(text);
    return first;
  }

  /** RAP-091 to RAP-094: the thread first, then the call; what matches neither reaches no conversation. */
  #take(call, body) {
    const { threads } = this.#world;
    if (body.group_id !== call.thread) return this.#drop(404, body, "another thread"); // E5, E6, RAP-264
    if (threads.get(call.thread).closed) return this.#drop(410, body, "closed thread"); // RAP-200, E38
    if ("id" in body && body.type !== "view_update" && body.type !== "subscription_event" && body.id !== call.id)
      return this.#drop(404, body, "another call");
    if (body.type === "tool_result") return this.#result(call, body);
    return threads.inTurn(call.thread, () => {
      const current = this.#world.calls.find(call.thread, call.id);
      if (body.type === "subscription_event") return this.#event(current, body);
      if (body.type === "view_update") return this.#view(current, body);
      return this.#prompt(current, body);
    });
  }

  /** RAP-092, RAP-095, E2 to E4: settled once; whatever comes later is answered by 200 and forgotten. */
  async #result(call, body) {
    const settled = await this.#world.dispatch.settle(call, body, "tool");
    return settled ? { status: 200 } : this.#drop(200, body, "already settled");
  }

  /** RAP-186: only an active subscription; E8, E9. Equal events are two events (E7). */
  #event(call, body) {
    const { threads, calls, emit } = this.#world;
    if (body.tool_call_id !== call.id) return this.#drop(404, body, "another call");
    if (call.subscription !== "active")
      return this.#drop(call.subscription ? 410 : 404, body, "no active subscription");
    const place = body.associative ? call.thread : this.#spawn(call.thread); // RAP-191, RAP-192
    const origin = { original_tool_name: call.operation, original_tool_call_id: call.id, original_args: call.given };
    threads.addToHistory(
      place,
      { role: "assistant", name: RESERVED.event, arguments: origin },
      { role: "tool", content: [{ type: "text", text: body.text }] },
    ); // RAP-187, RAP-188
    if (body.final) calls.change(call, { subscription: "ended" }); // RAP-193
    emit({
      event: "injected",
      thread: place,
      parent: call.thread,
      id: call.id,
      text: body.text,
      final: body.final === true,
    });
    return { status: 200 };
  }

  /** A child thread with the parent's history up to now. */
  #spawn(parentId) {
    const { threads } = this.#world;
    const parent = threads.get(parentId);
    const child = `${parent.id}/event-${parent.children + 1}`;
    threads.save({ ...parent, children: parent.children + 1 });
    threads.open(child, { ancestors: [...parent.ancestors, parent.id], history: parent.history });
    return child;
  }

  /** Shown (RAP-222, RAP-242) while the call stays pending (RAP-223, RAP-243), and for no other call (RAP-415). */
  #prompt(call, body) {
    const { threads, calls, emit } = this.#world;
    if (call.state === "settled") return this.#drop(200, body, "already settled");
    // RAP-231: the auth_url goes to the user and is not kept.
    const { prompt, choices, default: fallback, response_url, auth_url } = body;
    const asked =
      body.type === "oauth" ? { kind: "oauth" } : { kind: "choice", choices: choices.length, fallback, response_url };
    calls.change(call, { prompt: asked }); // RAP-416: a repeated prompt replaces the earlier one
    const about = { thread: call.thread, id: call.id, call_id: body.call_id };
    if (body.type === "oauth") {
      threads.addToHistory(call.thread, { role: "note", text: `authorization for ${call.id} is under way` }); // RAP-224
      emit({ event: "oauth", ...about, auth_url });
    } else {
      emit({ event: "choice", ...about, prompt, choices, default: fallback });
    }
    return { status: 200 };
  }

  /** RAP-260, RAP-263, RAP-269: the latest per view, as it came; no call moves, no history grows. */
  #view({ thread: id }, { view_type, content }) {
    const { threads, emit } = this.#world;
    const thread = threads.get(id);
    threads.save({ ...thread, views: { ...thread.views, [view_type]: content } });
    emit({ event: "view", thread: id, view_type, content }); // RAP-261
    return { status: 200 };
  }

  #drop(status, { type }, reason) {
    this.#world.emit({ event: "dropped", type: String(type), reason, status });
    return { status };
  }
}

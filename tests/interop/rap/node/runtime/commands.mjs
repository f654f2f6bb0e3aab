// The person at the keyboard: one JSON object per line on stdin, carried out in order.

import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { encode, isObject } from "../wire/json.mjs";
import { request } from "../wire/send.mjs";
import { rootOf } from "./threads.mjs";

export class Commands {
  #world;
  #frozen = new Set(); // sessions that are on the move (RAP-322)

  constructor(world) {
    this.#world = world;
  }

  /** Resolves when stdin closes. `discover`, `migrate` and `wait` hold up the commands behind them; calls do not. */
  async readAll(stream) {
    for await (const line of createInterface({ input: stream })) {
      if (!line.trim()) continue;
      try {
        await this.#carryOut(JSON.parse(line));
      } catch (fault) {
        this.#world.emit({ event: "bad_command", reason: fault.message });
      }
    }
  }

  async #carryOut(command) {
    const { do: name } = command;
    const known = ["discover", "invoke", "choose", "cancel", "close", "migrate", "wait", "views", "history", "raw"];
    if (!known.includes(name)) throw new Error(`do must be one of ${known.join(", ")}`);
    await this[name](command);
  }

  async discover({ session, servers }) {
    await this.#world.toolsets.discover(session, servers);
  }

  invoke({ id = randomUUID(), ...call }) {
    const session = call.ancestors?.[0] ?? call.thread;
    if (this.#frozen.has(session))
      return this.#world.emit({ event: "refused", thread: call.thread, id, reason: "the session is moving" });
    this.#world.dispatch.invoke({ ...call, id }); // nobody waits: RAP-126
  }

  choose({ thread, id, selected = null }) {
    this.#world.notices.choose(thread, id, selected);
  }

  /** Abandon a pending call. A subscription is ended by calling the tool `cancel_subscription`. */
  async cancel({ thread, id }) {
    const call = this.#world.calls.find(thread, id);
    const abandoned =
      call && (await this.#world.dispatch.abandon(call, "the call was interrupted by the user", "interrupted"));
    if (!abandoned) this.#world.emit({ event: "refused", thread, id, reason: "not pending" });
  }

  async close({ thread: id }) {
    const { threads, calls, dispatch, notices, emit } = this.#world;
    const thread = threads.get(id);
    if (!thread || thread.closed) return emit({ event: "refused", thread: id, reason: "no such open thread" });
    const pending = calls.all().filter((call) => call.thread === id && call.state !== "settled");
    for (const call of pending) await dispatch.abandon(call, "the thread was closed", "interrupted");
    await threads.inTurn(id, () => threads.save({ ...threads.get(id), closed: true }));
    notices.closed(id);
    return emit({ event: "closed", thread: id });
  }

  async migrate({ session, to }) {
    this.#frozen.add(session);
    await this.#world.notices.migrate(session, to).finally(() => this.#frozen.delete(session));
  }

  /** Until something that was told matches every member of `for`, `count` times. */
  async wait({ for: wanted, count = 1, timeout_ms = 10_000 }) {
    const matches = (told) => Object.entries(wanted).every(([name, value]) => isDeepStrictEqual(told[name], value));
    const found = await this.#world.told.until((all) => all.filter(matches).length >= count, timeout_ms);
    this.#world.emit({ event: "waited", found });
  }

  /** RAP-262: what a newly connected client is given. */
  views({ thread }) {
    this.#world.emit({ event: "views", thread, views: this.#world.threads.get(thread)?.views ?? {} });
  }

  history({ thread: id }) {
    const thread = this.#world.threads.get(id);
    this.#world.emit({
      event: "history",
      thread: id,
      session: thread && rootOf(thread),
      ancestors: thread?.ancestors,
      entries: thread?.history ?? [],
    });
  }

  /** Anything at all to any address: what a broken or hostile runtime might send. */
  async raw({ url, body, label = "application/json", headers = {} }) {
    const bytes = isObject(body) ? encode(body) : Buffer.from(String(body), "latin1");
    const reply = await request("POST", url, bytes, {
      timeout: 15_000,
      headers: { "Content-Type": label, ...headers },
    });
    this.#world.emit({ event: "raw", status: reply.status, reply: reply.bytes.toString() });
  }
}

// Delivery of callbacks: one after the other for each call, again and again while the runtime is away.

import { persist, post } from "../wire/send.mjs";

export class Outbox {
  #log;
  #pace;
  #faults;
  #last = new Map(); // call key to the delivery that the next one waits for

  constructor({ log, pace, faults }) {
    this.#log = log;
    this.#pace = pace;
    this.#faults = faults;
  }

  /**
   * Deliver and resolve to the final status, or to 0 when every attempt was in vain.
   *
   * RAP-405: callbacks of one call never overtake each other. E22: a runtime that is down delays nobody else's.
   */
  send(call, message) {
    const before = this.#last.get(call.key) ?? Promise.resolve();
    const delivery = before.then(() => this.#deliver(call, message));
    this.#last.set(call.key, delivery);
    delivery.then(() => this.#last.get(call.key) === delivery && this.#last.delete(call.key));
    return delivery;
  }

  async #deliver(call, message) {
    await this.#faults.before(call, message);
    const status = await this.#untilTaken(call, message);
    await this.#faults.after(call, message);
    return status;
  }

  /** RAP-110: again after a 5xx, a timeout or no connection. RAP-111, E23: a 4xx ends it. */
  async #untilTaken(call, message) {
    const { type } = message;
    const { id } = call.invocation;
    const attempt = async (tried) => {
      const reply = await post(call.invocation.callback_url, message); // RAP-003, RAP-006
      this.#log({ event: "callback", type, id, status: reply.status, attempt: tried });
      return reply; // RAP-112: its body is not looked at
    };
    try {
      return (await persist(attempt, this.#pace)).status;
    } catch {
      this.#log({ event: "undelivered", type, id });
      return 0;
    }
  }
}

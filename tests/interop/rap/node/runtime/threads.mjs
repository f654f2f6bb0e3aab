// Conversations: their history, views and calls, all of it on record before anybody acts on it.

import { randomBytes, timingSafeEqual } from "node:crypto";

export class Threads {
  #journal;
  #turns = new Map(); // thread id to the message that the next one waits for

  constructor(journal) {
    this.#journal = journal;
  }

  get(id) {
    return this.#journal.get(`thread:${id}`);
  }

  /** The thread, made when it is new. `ancestors` is root first, parent last (RAP-027). */
  open(id, { ancestors = [], history = [] } = {}) {
    if (!this.get(id)) this.save({ id, ancestors, history, views: {}, closed: false, children: 0 });
    return this.get(id);
  }

  save(thread) {
    this.#journal.set(`thread:${thread.id}`, thread);
  }

  ofSession(session) {
    return this.#journal.under("thread:").filter((thread) => rootOf(thread) === session);
  }

  addToHistory(id, ...entries) {
    const thread = this.get(id);
    this.save({ ...thread, history: [...thread.history, ...entries] });
  }

  /** RAP-120, E44: one message at a time in one thread; other threads are not held up. */
  inTurn(id, work) {
    const turn = (this.#turns.get(id) ?? Promise.resolve()).then(work);
    this.#turns.set(
      id,
      turn.catch(() => {}),
    );
    return turn;
  }
}

/** The session of a thread is its root. */
export const rootOf = ({ id, ancestors }) => ancestors[0] ?? id;

/** Calls by thread and id: `registered`, `dispatched` or `settled`, with a `prompt` while a user is asked (1.4). */
export class PendingCalls {
  #journal;

  constructor(journal) {
    this.#journal = journal;
  }

  /** RAP-400: on record before the POST. The secret makes the callback URL unguessable, for one call (RAP-098). */
  register(call) {
    const number = (this.#journal.get("calls") ?? 0) + 1;
    this.#journal.set("calls", number);
    this.save({ ...call, number, secret: randomBytes(24).toString("base64url"), state: "registered" });
    return this.find(call.thread, call.id);
  }

  save(call) {
    this.#journal.set(keyOf(call.thread, call.id), call);
    this.#journal.set(`number:${call.number}`, { thread: call.thread, id: call.id });
  }

  change(call, members) {
    this.save({ ...this.find(call.thread, call.id), ...members });
  }

  find(thread, id) {
    return this.#journal.get(keyOf(thread, id));
  }

  /** The call that a callback URL was made for; RAP-413: compared in constant time. */
  behind(number, secret) {
    const place = this.#journal.get(`number:${number}`);
    if (!place) return undefined;
    const call = this.find(place.thread, place.id);
    const [given, wanted] = [Buffer.from(secret), Buffer.from(call.secret)];
    return given.length === wanted.length && timingSafeEqual(given, wanted) ? call : undefined;
  }

  all() {
    return this.#journal.under("call:");
  }
}

const keyOf = (thread, id) => `call:${JSON.stringify([thread, id])}`;

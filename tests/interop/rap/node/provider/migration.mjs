// Moving a session to the same provider elsewhere (2.13, 3.15).

import { timingSafeEqual } from "node:crypto";
import { decodeObject } from "../wire/json.mjs";
import { get, isLoopback, post } from "../wire/send.mjs";

const refuse = (status, error) => ({ status, body: { error } }); // RAP-324: with an explanation

export class Migration {
  #key;
  #name;
  #calls;
  #notes;
  #log;

  /** `key` is what source and destination share (RAP-327). Without one there is no `/migrate` at all. */
  constructor({ key, name, calls, notes, log }) {
    this.#key = key;
    this.#name = name;
    this.#calls = calls;
    this.#notes = notes;
    this.#log = log;
  }

  routes(prefix, guarded) {
    if (!this.#key) return [];
    return [
      { method: "POST", path: `${prefix}/migrate`, handle: guarded(({ body }) => this.#migrate(body)) },
      { method: "POST", path: `${prefix}/transfer`, handle: ({ body, headers }) => this.#receive(body, headers) },
    ];
  }

  /** RAP-323: the reply waits until the destination has everything. What fails leaves the session here (RAP-325). */
  async #migrate({ session_id, destination_url }) {
    if (typeof session_id !== "string") return refuse(400, "session_id must be a string");
    if (!isLoopback(destination_url)) return refuse(400, "destination_url must be a loopback address");
    const destination = destination_url.replace(/\/+$/, "");
    if (!(await this.#isReady(destination))) return refuse(502, "the destination does not serve this toolset");

    const subscriptions = await this.#calls.release(session_id);
    const state = { session_id, subscriptions, notes: this.#notes.of(session_id) };
    if (!(await this.#transfer(destination, state))) {
      this.#calls.adopt(subscriptions);
      return refuse(502, "the destination did not take the session");
    }
    this.#calls.forget(subscriptions);
    this.#notes.forgetSession(session_id);
    this.#log({ event: "migrated", session: session_id });
    return { status: 200 };
  }

  /** RAP-326: reachable, and the same toolset, before anything moves. */
  async #isReady(destination) {
    try {
      const reply = await get(`${destination}/.well-known/rap-toolset`);
      return reply.status === 200 && decodeObject(reply.bytes).name === this.#name;
    } catch {
      return false;
    }
  }

  async #transfer(destination, state) {
    try {
      const reply = await post(`${destination}/transfer`, state, {
        headers: { Authorization: `Bearer ${this.#key}` },
        timeout: 30_000,
      });
      return reply.status === 200;
    } catch {
      return false;
    }
  }

  #receive({ session_id, notes, subscriptions }, headers) {
    if (!isBearer(headers, this.#key)) return { status: 401 };
    this.#notes.adopt(notes);
    this.#calls.adopt(subscriptions);
    this.#log({ event: "adopted", session: session_id });
    return { status: 200 };
  }
}

/** In constant time; RAP-413 asks it of tokens in callback URLs, and it does no harm here. */
export function isBearer({ authorization = "" }, token) {
  const [given, wanted] = [Buffer.from(authorization), Buffer.from(`Bearer ${token}`)];
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

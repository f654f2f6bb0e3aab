// Faults on purpose: what a provider must not do, so that a runtime can show that it survives it.

import { setTimeout as sleep } from "node:timers/promises";
import { encode } from "../wire/json.mjs";
import { post, request } from "../wire/send.mjs";

export const FAULTS = [
  "duplicate", // every result and prompt twice (E3)
  "contradict", // a second, different result after the first (E4)
  "delay", // wait before each callback
  "reorder", // hold callbacks of different calls together, let them go in another order
  "garbage", // malformed bodies before each callback
  "strangers", // well-formed messages about threads and calls that do not exist (E5, E6)
  "stray-events", // an event before its confirmation (E8) and one after the last (E9)
  "refuse-first", // 503 to the first attempt of each invocation
  "lose-ack", // accept the first attempt of each invocation, then cut the connection (E20)
  "late-ack", // acknowledge only after the result was delivered (E1)
  "answer-202", // take no invocation on, and say so with a status that looks like success (A1)
  "answer-307", // take none on, and send the runtime elsewhere (E46)
  "answer-400", // take none on (RAP-033)
  "deaf", // answer notices by 500 and do nothing about them (E26)
];

/** Bodies that every runtime must refuse with a 4xx: name to `[bytes, content type]`. */
function garbage({ group_id, id }) {
  const json = (value) => [encode(value), "application/json"];
  const result = (members) => json({ type: "tool_result", group_id, id, ...members });
  const choice = {
    type: "user_choice",
    group_id,
    id,
    prompt: "?",
    choices: ["a", "b"],
    default: 0,
    response_url: "http://127.0.0.1:9/x",
  };
  return {
    "not JSON": [Buffer.from("{"), "application/json"],
    "not UTF-8": [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), "application/json"],
    "with a BOM": [Buffer.from(`\uFEFF{"type":"tool_result"}`), "application/json"],
    "a list": [Buffer.from("[]"), "application/json"],
    "a form": [Buffer.from("type=tool_result"), "application/x-www-form-urlencoded"],
    "no type": json({ group_id, id, text: "x" }),
    "unknown type": json({ type: "tool_error", group_id, id, text: "x" }),
    "no group_id": json({ type: "tool_result", id, text: "x" }),
    "numeric id": json({ type: "tool_result", group_id, id: 7, text: "x" }),
    "neither text nor content": result({}),
    "empty content": result({ content: [] }),
    "unknown content item": result({ content: [{ type: "sound", data: "AA==" }] }),
    "wrapped base64": result({ content: [{ type: "image", data: "AAAA\nAAAA", mediaType: "image/png" }] }),
    "data URL as base64": result({
      content: [{ type: "image", data: "data:image/png;base64,AAAA", mediaType: "image/png" }],
    }),
    "text that is a number": result({ text: 5 }),
    "choice without default": json({ ...choice, default: undefined }),
    "choice with true as default": json({ ...choice, default: true }),
    "choice with default out of range": json({ ...choice, default: 2 }),
    "choice without choices": json({ ...choice, choices: [] }),
    "choice answered by file": json({ ...choice, response_url: "file:///etc/passwd" }),
    "auth_url without TLS": json({ type: "oauth", group_id, id, auth_url: "http://login.example.test/authorize" }),
    "event with id": json({ type: "subscription_event", group_id, id, text: "x" }),
    "view that is a list": json({ type: "view_update", group_id, view_type: "diff", content: [] }),
  };
}

/** Well-formed messages that match nothing and must change nothing. */
function strangers({ group_id, id }) {
  const result = { type: "tool_result", group_id, id, text: "from a stranger" };
  return {
    "unknown thread": { ...result, group_id: `${group_id}/nowhere` },
    "unknown call": { ...result, id: `${id}-nobody` },
    "unknown subscription": {
      type: "subscription_event",
      group_id,
      tool_call_id: `${id}-nobody`,
      text: "x",
      associative: true,
    },
    "view of an unknown thread": {
      type: "view_update",
      group_id: `${group_id}/nowhere`,
      view_type: "diff",
      content: { patch: "x" },
    },
  };
}

export class Faults {
  #names;
  #log;
  #refused = new Set();
  #held = [];

  constructor(names, log) {
    this.#names = names;
    this.#log = log;
  }

  get isDeaf() {
    return this.#names.has("deaf");
  }

  /** What to do about an invocation instead of just taking it on: the name of a fault, or nothing. */
  onInvocation(key) {
    const always = ["answer-202", "answer-307", "answer-400"].find((name) => this.#names.has(name));
    if (always) return always;
    const fault = ["refuse-first", "lose-ack"].find((name) => this.#names.has(name));
    if (fault && !this.#refused.has(key)) {
      this.#refused.add(key);
      return fault;
    }
    return this.#names.has("late-ack") ? "late-ack" : null;
  }

  async before(call, message) {
    const event = message.type === "tool_result" && message.subscription;
    if (this.#names.has("delay")) await sleep(Math.random() * 50);
    if (this.#names.has("garbage")) {
      for (const [what, [bytes, label]] of Object.entries(garbage(call.invocation)))
        await this.#raw(call, what, bytes, label);
    }
    if (this.#names.has("strangers")) {
      for (const [what, stranger] of Object.entries(strangers(call.invocation)))
        await this.#extra(call, what, stranger);
      await this.#extra(call, "forged URL", call.message("tool_result", { text: "forged" }), forged(call));
    }
    if (this.#names.has("stray-events") && event) await this.#extra(call, "early event", stray(call, "too early"));
    if (this.#names.has("reorder")) await this.#hold();
  }

  /** E7: events are never sent twice here, because two equal events are two events. */
  async after(call, message) {
    const repeatable = ["tool_result", "oauth", "user_choice"].includes(message.type);
    if (this.#names.has("duplicate") && repeatable) await this.#extra(call, "duplicate", message);
    if (this.#names.has("contradict") && message.type === "tool_result") {
      await this.#extra(call, "contradiction", call.message("tool_result", { text: "no, something else" }));
    }
    if (this.#names.has("stray-events") && message.final)
      await this.#extra(call, "late event", stray(call, "too late"));
  }

  /** Wait until a few callbacks are held, or for a moment; then they go in any order but the one they came in. */
  #hold() {
    return new Promise((release) => {
      this.#held.push(release);
      const letGo = () =>
        this.#held
          .splice(0)
          .reverse()
          .forEach((each) => each());
      if (this.#held.length >= 3) letGo();
      else setTimeout(letGo, 40);
    });
  }

  #extra(call, what, message, url = call.invocation.callback_url) {
    return this.#once(call, what, () => post(url, message));
  }

  #raw(call, what, bytes, label) {
    const options = { timeout: 15_000, headers: { "Content-Type": label } };
    return this.#once(call, what, () => request("POST", call.invocation.callback_url, bytes, options));
  }

  async #once(call, what, send) {
    const status = await send().then(
      (reply) => reply.status,
      () => 0,
    );
    this.#log({ event: "fault", what, id: call.invocation.id, status });
  }
}

/** The callback URL with another last character: whatever it was, it is not the one that was given out. */
const forged = ({ invocation: { callback_url: url } }) => url.slice(0, -1) + (url.endsWith("0") ? "1" : "0");

const stray = (call, text) => call.message("subscription_event", { text, associative: true });

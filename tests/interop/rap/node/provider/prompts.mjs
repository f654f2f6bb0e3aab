// Questions to the user, and the endpoint that takes the answers (2.8, 2.9, 3.11).

import { randomUUID } from "node:crypto";
import { ToolError } from "./call.mjs";

/** Resolves with the first `settle(value)`; rejects on cancellation or when nobody answers (RAP-248, RAP-418, E50). */
export function answerWithin(patience, signal, words) {
  let settle;
  let fail;
  const answer = new Promise((resolve, reject) => {
    settle = resolve;
    fail = reject;
  });
  const timer = setTimeout(
    () => fail(new ToolError(`nobody ${words} within ${patience} ms; call again to be asked again`)),
    patience,
  );
  const onAbort = () => fail(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  const clear = () => {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  };
  answer.then(clear, clear);
  return { answer, settle, fail };
}

export class Prompts {
  #outbox;
  #patience;
  #base;
  #open = new Map(); // nonce to question; kept after the answer, so that a second one is met with 200 (E30)

  constructor({ outbox, patience, base }) {
    this.#outbox = outbox;
    this.#patience = patience;
    this.#base = base;
  }

  /** Ask, wait, and return the index that was picked (RAP-240, RAP-241). */
  async choose(call, { prompt, choices, fallback }) {
    const nonce = randomUUID();
    const { answer, settle } = answerWithin(this.#patience, call.signal, "answered");
    this.#open.set(nonce, { id: call.invocation.id, settle }); // before the question goes out: the answer may be quick
    const response_url = `${this.#base()}/choice/${nonce}`; // RAP-252: loopback; the nonce authenticates the answer
    const asked = this.#outbox.send(
      call,
      call.message("user_choice", { prompt, choices, default: fallback, response_url }),
    );
    asked.catch(() => {});
    const selected = await answer;
    // RAP-247, E29: never index with it before it is known to be an index; `true` and "1" are none.
    if (!Number.isInteger(selected) || selected < 0 || selected >= choices.length) {
      throw new ToolError(`the selection must be a number from 0 to ${choices.length - 1}; nothing was done`);
    }
    return selected;
  }

  routes() {
    return [
      {
        method: "POST",
        path: /^\/choice\/([0-9a-f-]{36})$/,
        handle: ({ groups, body }) => this.#take(groups[0], body),
      },
    ];
  }

  #take(nonce, { id, selected }) {
    const question = this.#open.get(nonce);
    if (!question) return { status: 404 };
    if (id !== question.id) return { status: 400, body: { error: "id names another call" } };
    question.settle(selected); // only the first has an effect
    return { status: 200 };
  }
}

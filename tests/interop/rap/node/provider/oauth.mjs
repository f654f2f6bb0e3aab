// Authorization by a third party (2.7, 3.10), with PKCE and a checked `state`.

import { createHash, randomBytes } from "node:crypto";
import { decodeObject } from "../wire/json.mjs";
import { post } from "../wire/send.mjs";
import { ToolError } from "./call.mjs";
import { answerWithin } from "./prompts.mjs";

const secret = () => randomBytes(24).toString("base64url");
const challengeOf = (verifier) => createHash("sha256").update(verifier).digest("base64url");

export class Grants {
  #outbox;
  #patience;
  #base;
  #authorizeAt;
  #tokens = new Map(); // user to token; RAP-226
  #waiting = new Map(); // state to the flow it belongs to

  /** `authorizeAt` is the page that people open; RAP-221 wants HTTPS, the pretend page on loopback has none. */
  constructor({ outbox, patience, base, authorizeAt }) {
    this.#outbox = outbox;
    this.#patience = patience;
    this.#base = base;
    this.#authorizeAt = authorizeAt;
  }

  /** The user's token; asks for authorization when there is none (RAP-220). */
  async token(call) {
    const user = JSON.stringify([call.invocation.user_id ?? null, call.invocation.user_id ? null : call.root]);
    if (!this.#tokens.has(user)) this.#tokens.set(user, await this.#authorize(call));
    return this.#tokens.get(user);
  }

  async #authorize(call) {
    const [state, verifier] = [secret(), secret()];
    const { answer, settle, fail } = answerWithin(this.#patience, call.signal, "authorized"); // RAP-228
    this.#waiting.set(state, { verifier, settle, fail });
    const auth_url = this.#authUrl(state, verifier);
    this.#outbox.send(call, call.message("oauth", { auth_url })).catch(() => {});
    try {
      return await answer;
    } finally {
      this.#waiting.delete(state);
    }
  }

  #authUrl(state, verifier) {
    const url = new URL(this.#authorizeAt() ?? `${this.#base()}/login/authorize`);
    url.search = new URLSearchParams({
      response_type: "code",
      client_id: "greenhouse",
      scope: "mail.read", // RAP-232: the least that does
      state,
      redirect_uri: `${this.#base()}/oauth/done`,
      code_challenge: challengeOf(verifier),
      code_challenge_method: "S256",
    });
    return url.href;
  }

  routes() {
    return [{ method: "GET", path: "/oauth/done", handle: ({ query }) => this.#redirected(query) }];
  }

  /** RAP-229: only a state that we gave out, and only once. RAP-227: a refusal ends the call with an error. */
  async #redirected(query) {
    const state = query.get("state");
    const flow = this.#waiting.get(state);
    if (!flow) return { status: 400, body: "<p>This authorization is not expected.</p>" };
    this.#waiting.delete(state);
    if (query.has("error")) {
      flow.fail(new ToolError("the authorization was denied; call again to be asked again"));
      return { status: 200, body: "<p>Nothing was authorized.</p>" };
    }
    await this.#exchange(query.get("code"), flow);
    return { status: 200, body: "<p>Done. You can close this page.</p>" };
  }

  /** RAP-230: neither code nor token shows up in a result, an error or a log. */
  async #exchange(code, flow) {
    try {
      const reply = await post(`${this.#base()}/login/token`, { code, code_verifier: flow.verifier });
      if (reply.status !== 200) throw new Error("refused");
      flow.settle(decodeObject(reply.bytes).access_token);
    } catch {
      flow.fail(new ToolError("the authorization could not be completed; call again to be asked again"));
    }
  }
}

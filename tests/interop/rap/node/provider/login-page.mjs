// A pretend authorization server: a page with two links, and an endpoint that trades a code for a token.

import { createHash, randomBytes } from "node:crypto";

export class LoginPage {
  #codes = new Map(); // code to the challenge that its redeemer must meet

  routes() {
    return [
      { method: "GET", path: "/login/authorize", handle: ({ query }) => this.#page(query) },
      { method: "POST", path: "/login/token", handle: ({ body }) => this.#token(body) },
    ];
  }

  #page(query) {
    const code = randomBytes(12).toString("base64url");
    this.#codes.set(code, query.get("code_challenge"));
    const link = (answer) => {
      const target = new URL(query.get("redirect_uri"));
      target.search = new URLSearchParams({ state: query.get("state"), ...answer });
      return target.href.replaceAll("&", "&amp;");
    };
    const allow = `<a href="${link({ code })}">Allow</a>`;
    const deny = `<a href="${link({ error: "access_denied" })}">Deny</a>`;
    return { status: 200, body: `<p>May the greenhouse read your mail?</p> ${allow} ${deny}` };
  }

  #token({ code, code_verifier }) {
    const challenge = this.#codes.get(code);
    this.#codes.delete(code);
    const met = createHash("sha256").update(String(code_verifier)).digest("base64url") === challenge;
    return met ? { status: 200, body: { access_token: randomBytes(16).toString("hex") } } : { status: 400 };
  }
}

// What a reader sees without a session, and how to get one.
import { html, useState } from "../html.js";
import { loginWithKey, me, meProblem, openSession } from "../session.js";
import { Text } from "../text.js";
import { Failure, Notice } from "../widgets.js";

/** A notice in place of what the reader's role does not show. */
export function NeedsLogin({ what }) {
  return html`<${Notice} tone="warn" title=${`Log in to ${what}`}>
    <p>You use this page as <b><${Text} value=${me.value?.subject ?? "an unknown user"} /></b>, with the role ${me.value?.roles.join(", ") || "none"}.</p>
    <${HowToLogin} /><//>`;
}

export function HowToLogin() {
  return html`<p>Open the login link that the terminal printed when the server started, or enter a key that has the role.</p><${KeyForm} />`;
}

function KeyForm() {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(null);
  const enter = async (event) => {
    event.preventDefault();
    try {
      await loginWithKey(key.trim());
    } catch (error) {
      setProblem(error);
    }
  };
  return html`<form class="inline" onSubmit=${enter}>
    <label>Key <input type="password" autocomplete="off" spellcheck=${false} value=${key} placeholder="atk_…"
        onInput=${(event) => setKey(event.target.value)} /></label>
    <button type="submit" disabled=${key.trim() === ""}>Log in</button>
    <${Failure} error=${problem} />
  </form>`;
}

/** The whole page while the server refuses every request. */
export function LoginPage() {
  return html`<main class="login card"><h1 tabindex="-1">Log in</h1>
    <p>${me.value ? "Your session has ended." : "This server needs a login."}</p>
    <${HowToLogin} />
    ${meProblem.value && meProblem.value.status !== 401 && html`<${Failure} error=${meProblem.value} retry=${openSession} />`}
    ${meProblem.value?.status === 401 && html`<p class="muted"><${Text} value=${meProblem.value.message} /></p>`}
  </main>`;
}

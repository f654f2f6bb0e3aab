// The result of a call: its error with what to do next, its content, and stored payloads.
import { html } from "./html.js";
import { JsonTree } from "./json_tree.js";
import { Payload, parsed } from "./payload.js";
import { OutsideLink, Text, visible } from "./text.js";
import { Chip, Notice } from "./widgets.js";

/** @param {{call: object, isPending?: boolean}} props `call` is a CallState or CallDetail */
export function ResultView({ call, isPending = false }) {
  const { result, payloads = [], invocation_id: id } = call;
  if (!result) return html`<p class="muted">${isPending ? "There is no result yet. It appears here by itself." : "No result is recorded."}</p>`;
  const items = (result.content ?? []).filter(({ type }) => type !== "persisted_output_ref");
  const isStored = items.length < (result.content ?? []).length;
  const preview = isStored && items.length === 0 ? (result.model_facing_content ?? []).filter(({ text }) => text) : [];
  const isTextOnly = result.structured_content !== undefined && items.length === 1 && items[0].type === "text";
  return html`<div class="result">
    ${result.error && html`<${CallError} error=${result.error} />`}
    ${result.structured_content !== undefined && typeof result.structured_content === "object" && result.structured_content !== null
      && html`<${JsonTree} value=${result.structured_content} open=${2} />`}
    ${(!isTextOnly || typeof result.structured_content !== "object" || result.structured_content === null) && !result.error && items.map((item) => html`<${Item} item=${item} />`)}
    ${preview.map((item) => html`<p class="label">What the model reads</p><${Item} item=${item} />`)}
    ${result.empty_result && html`<p class="muted">The tool returned nothing.</p>`}
    ${result.redaction_state && result.redaction_state !== "none" && html`<p><${Chip}
        value=${`secrets removed (${result.redaction_state})`} tone="plain" /></p>`}
    ${payloads.map((each) => html`<${Payload} key=${each.digest} invocationId=${id} digest=${each.digest} mediaType=${each.media_type}
        size=${each.size_bytes} />`)}
  </div>`;
}

function CallError({ error }) {
  const safe = error.retry?.safe;
  return html`<${Notice} tone="bad" title=${visible((error.error_class ?? "error").replaceAll("_", " "))}>
    <p class="error-text"><${Text} value=${error.message ?? ""} /></p>
    ${typeof safe === "boolean" && html`<p class="muted">${safe ? "It is safe to try again." : "Trying again may repeat its effects."}</p>`}
  <//>`;
}

function Item({ item }) {
  if (typeof item.text === "string") {
    const value = parsed(item.text);
    return value === undefined ? html`<pre class="output" tabindex="0" aria-label="output"><${Text} value=${item.text} />
        </pre>` : html`<${JsonTree} value=${value} open=${2} />`;
  }
  if (item.data !== undefined) return html`<${JsonTree} value=${item.data} open=${1} />`;
  const address = item.uri ?? item.ref?.uri;
  return html`<p><${Chip} value=${item.type} /> <${Text}
      value=${item.name ?? item.ref?.title ?? ""} /> ${address && !address.startsWith("payload:") && html`<${OutsideLink} href=${address} />`}
    <span class="muted"> <${Text} value=${item.media_type ?? item.ref?.media_type ?? ""} /></span></p>`;
}

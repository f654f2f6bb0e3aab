// Stored output of a call: the first 256 kB, the rest on request. Shown as text, JSON tree or image; never as markup.
import { html, useEffect, useState } from "./html.js";
import { requestBlob, requestBytes } from "./api.js";
import { JsonTree } from "./json_tree.js";
import { Text, bytes, visible } from "./text.js";
import { Choice, Failure, Loading } from "./widgets.js";

const FIRST = 256 * 1024, MAX_IMAGE = 20_000_000;
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

/** Show one payload of a call. Nothing is loaded before the reader opens it. */
export function Payload({ invocationId, digest, mediaType, size }) {
  const [isOpen, setOpen] = useState(false);
  const [problem, setProblem] = useState(null);
  const address = `/v1/results/${encodeURIComponent(invocationId)}/payloads/${encodeURIComponent(digest)}`;
  return html`<div class="payload card">
    <div class="row">
      <button type="button" aria-expanded=${isOpen}
          onClick=${() => setOpen(!isOpen)}>${isOpen ? "Hide" : "Show"} the stored ${visible((mediaType ?? "output").split(";")[0])}</button>
      <span class="muted">${bytes(size)}</span>
      <button type="button" class="small" onClick=${() => download(address, digest).then(setProblem, setProblem)}>Download</button>
    </div>
    <${Failure} error=${problem} />
    ${isOpen && html`<${Content} address=${address} type=${(mediaType ?? "").split(";")[0].trim().toLowerCase()} size=${size} />`}
  </div>`;
}

/** Save a payload as a file. A link could not send the headers of the session. */
async function download(address, digest) {
  const made = URL.createObjectURL(await requestBlob(address));
  const link = Object.assign(document.createElement("a"), { href: made, download: digest.replace(/^sha256[:-]/, "").slice(0, 16) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(made), 60_000);
  return null;
}

function Content({ address, type, size }) {
  const [loaded, setLoaded] = useState({ bytes: new Uint8Array(0), total: size });
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const isImage = IMAGES.has(type) && (size === null || size === undefined || size <= MAX_IMAGE);

  const load = async (last) => {
    setBusy(true);
    setError(null);
    try {
      const part = await requestBytes(address, loaded.bytes.length, last);
      const all = new Uint8Array(loaded.bytes.length + part.bytes.length);
      all.set(loaded.bytes);
      all.set(part.bytes, loaded.bytes.length);
      setLoaded({ bytes: all, total: Number.isFinite(part.total) ? part.total : size });
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  useEffect(() => { load(isImage ? MAX_IMAGE - 1 : FIRST - 1); }, [address]);

  if (error) return html`<${Failure} error=${error} />`;
  if (loaded.bytes.length === 0) return isBusy ? html`<${Loading} />` : html`<p class="muted">It is empty.</p>`;
  const isAll = loaded.total === null || loaded.total === undefined || loaded.bytes.length >= loaded.total;
  if (isImage && isAll) return html`<${Picture} content=${loaded.bytes} type=${type} />`;
  return html`<${Words} content=${loaded.bytes} isAll=${isAll} type=${type} />
    ${!isAll && html`<p class="row"><span>These are the first ${bytes(loaded.bytes.length)} of ${bytes(loaded.total)}.</span>
      <button type="button" class="small" disabled=${isBusy}
          onClick=${() => load(loaded.bytes.length + FIRST - 1)}>Show ${bytes(FIRST)} more</button></p>`}`;
}

function Picture({ content, type }) {
  const [address, setAddress] = useState(null);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([content], { type }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [content]);
  return address && html`<img class="payload-image" src=${address} alt="The image that the tool returned" />`;
}

function Words({ content, isAll, type }) {
  const [asTree, setTree] = useState(true);
  const text = new TextDecoder("utf-8").decode(content);
  if (looksBinary(text)) return html`<p class="muted">These bytes are not text. Download them to look at them.</p>`;
  const value = isAll && (type.includes("json") || type === "" || type.startsWith("text/")) ? parsed(text) : undefined;
  return html`${value !== undefined && html`<${Choice} label="view" value=${asTree ? "tree" : "text"}
      options=${[["tree", "Tree"], ["text", "Text"]]} onChange=${(name) => setTree(name === "tree")} />`}
    ${value !== undefined && asTree ? html`<${JsonTree} value=${value} open=${2} />`
      : html`<pre class="output" tabindex="0" aria-label="stored output"><${Text} value=${text} /></pre>`}`;
}

function looksBinary(text) {
  const start = text.slice(0, 4000);
  return (start.match(/\ufffd|\0/g)?.length ?? 0) > start.length / 20;
}

/** Return the JSON object or list of a text; undefined if it is none. */
export function parsed(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

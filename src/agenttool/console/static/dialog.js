// A modal dialog on the browser's own element: it keeps the focus inside, and Escape closes it.
import { html, useEffect, useId, useRef } from "./html.js";

/** Show a dialog while it is rendered. The element with `data-focus` gets the focus, else the heading. */
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(null), heading = useId();
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current.showModal();
    (dialog.current.querySelector("[data-focus]") ?? dialog.current.querySelector("h2")).focus();
    return () => opener?.focus?.();
  }, []);
  const closeOutside = (event) => { if (event.target === dialog.current) onClose(); };
  return html`<dialog ref=${dialog} aria-labelledby=${heading} onClick=${closeOutside}
      onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <div class="dialog-body">
      <header><h2 id=${heading} tabindex="-1">${title}</h2>
        <button type="button" class="plain" onClick=${onClose} aria-label="close">✕</button></header>
      ${children}
    </div>
  </dialog>`;
}

/** Ask before something that cannot be undone. The harmless button has the focus. */
export function Confirm({ title, action, onConfirm, onClose, children }) {
  return html`<${Dialog} title=${title} onClose=${onClose}>
    ${children}
    <div class="actions">
      <button type="button" data-focus onClick=${onClose}>Go back</button>
      <button type="button" class="danger" onClick=${() => { onClose(); onConfirm(); }}>${action}</button>
    </div>
  <//>`;
}

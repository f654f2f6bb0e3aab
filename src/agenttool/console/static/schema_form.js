// A form made from a JSON Schema. It helps to write a value; the server alone decides whether the value is valid.
import { html, useId, useState } from "./html.js";
import { Text, visible } from "./text.js";
import { Choice } from "./widgets.js";

const MAX_DEPTH = 4;

/**
 * A form for a JSON object, with a switch to its JSON text.
 * @param {{schema: object, value: object, errors: {pointer: string, message: string}[], onChange: (value: object) => void}} props
 */
export function SchemaForm({ schema, value, errors = [], onChange }) {
  const [asText, setAsText] = useState(false);
  const canForm = isObjectSchema(schema ?? {});
  const others = errors.filter(({ pointer }) => asText || !canForm || !pointer || pointer === "/");
  return html`<div class="schema-form">
    ${canForm && html`<${Choice} label="how to edit" value=${asText ? "text" : "form"} options=${[["form", "Form"], ["text", "JSON"]]}
      onChange=${(name) => setAsText(name === "text")} />`}
    ${asText || !canForm ? html`<${JsonField} label="Arguments as JSON" value=${value} onChange=${onChange} rows=${12} />`
      : html`<${Members} schema=${schema} root=${schema} value=${value} pointer="" errors=${errors} onChange=${onChange} depth=${0} />`}
    ${others.map((error) => html`<p class="field-error" role="alert">${visible(error.pointer || "")} <${Text} value=${error.message} /></p>`)}
  </div>`;
}

function isObjectSchema(schema) {
  return schema.type === "object" || typeof schema.properties === "object";
}

/** Follow a local reference, and leave null out of a choice of types: an absent value stands for it. */
export function resolved(schema, root, hops = 0) {
  if (schema === null || typeof schema !== "object") return {};
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/") && hops < 8) {
    let found = root;
    for (const step of schema.$ref.slice(2).split("/")) found = found?.[decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~")];
    return { ...resolved(found ?? {}, root, hops + 1), ...without(schema, "$ref") };
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) {
    const real = choices.filter((each) => each?.type !== "null");
    if (real.length === 1) return { ...resolved(real[0], root, hops + 1), ...without(without(schema, "anyOf"), "oneOf") };
  }
  if (Array.isArray(schema.type)) {
    const real = schema.type.filter((each) => each !== "null");
    if (real.length === 1) return { ...schema, type: real[0] };
  }
  return schema;
}

function without(object, name) {
  const { [name]: _, ...rest } = object;
  return rest;
}

function Members({ schema, root, value, pointer, errors, onChange, depth }) {
  const required = new Set(schema.required ?? []);
  const given = value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  const names = [...new Set([...Object.keys(schema.properties ?? {}), ...Object.keys(given)])];
  names.sort((one, other) => required.has(other) - required.has(one));
  if (names.length === 0) return html`<p class="muted">This takes no arguments.</p>`;
  const change = (name, next) => onChange(next === undefined ? without(given, name) : { ...given, [name]: next });
  return html`<div class="members">${names.map((name) => html`<${Field} key=${name} name=${name}
    schema=${resolved(schema.properties?.[name] ?? {}, root)} root=${root} value=${given[name]} isRequired=${required.has(name)}
    pointer=${`${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`} errors=${errors} depth=${depth}
    onChange=${(next) => change(name, next)} />`)}</div>`;
}

function Field({ name, schema, root, value, isRequired, pointer, errors, onChange, depth }) {
  const id = useId();
  const mine = errors.filter((error) => error.pointer === pointer || (error.pointer?.startsWith(`${pointer}/`) && !isNested(schema, depth)));
  const hint = schema.description, isSet = value !== undefined;
  const help = hint || mine.length > 0 ? `${id}-help` : undefined;
  const control = html`<${Control} id=${id} schema=${schema} root=${root} value=${value} pointer=${pointer} errors=${errors} depth=${depth}
    onChange=${onChange} help=${help} isBad=${mine.length > 0} name=${name} />`;
  const title = html`<${Text} value=${name} />${isRequired ? html` <span class="required">required</span>` : ""}`;
  return html`<div class="field ${mine.length > 0 ? "bad" : ""}">
    <div class="row">${isNested(schema, depth) ? html`<span class="label">${title}</span>` : html`<label for=${id}>${title}</label>`}
      ${isSet && !isRequired && html`<button type="button" class="small plain" onClick=${() => onChange(undefined)}
          aria-label=${`leave out ${visible(name)}`}>leave out</button>`}</div>
    ${isSet || isRequired ? control : html`<div class="row"><button type="button" class="small" id=${id}
        onClick=${() => onChange(start(schema))}>set a value</button>
      ${schema.default !== undefined && html`<span class="muted">default: <code><${Text} value=${JSON.stringify(schema.default)} /></code>
          </span>`}</div>`}
    ${help && html`<div id=${help}>
      ${hint && html`<p class="hint"><${Text} value=${hint} /></p>`}
      ${mine.map((error) => html`<p class="field-error" role="alert"><${Text} value=${error.message} /></p>`)}</div>`}
  </div>`;
}

function isNested(schema, depth) {
  return depth < MAX_DEPTH && isObjectSchema(schema) && Object.keys(schema.properties ?? {}).length > 0;
}

/** The value a field starts with. */
export function start(schema) {
  if (schema.default !== undefined) return schema.default;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  return { string: "", number: 0, integer: 0, boolean: false, array: [], object: {} }[schema.type] ?? "";
}

function Control({ id, schema, root, value, pointer, errors, onChange, depth, help, isBad, name }) {
  const common = { id, "aria-describedby": help, "aria-invalid": isBad || undefined };
  if (isNested(schema, depth))
    return html`<div class="nested" role="group" aria-label=${visible(name)}><${Members} schema=${schema} root=${root} value=${value}
        pointer=${pointer} errors=${errors} onChange=${onChange} depth=${depth + 1} /></div>`;
  if (Array.isArray(schema.enum))
    return html`<select ...${common} onChange=${(event) => onChange(schema.enum[event.target.selectedIndex])}>
      ${schema.enum.map((each) => html`<option
          selected=${JSON.stringify(each) === JSON.stringify(value)}>${visible(typeof each === "string" ? each : JSON.stringify(each))}</option>`)}</select>`;
  if (schema.type === "boolean" && (value === undefined || typeof value === "boolean"))
    return html`<span class="check"><input type="checkbox" ...${common} checked=${value === true}
        onChange=${(event) => onChange(event.target.checked)} /> ${value === true ? "yes" : "no"}</span>`;
  if ((schema.type === "integer" || schema.type === "number") && (value === undefined || typeof value === "number"))
    return html`<input type="number" ...${common} step=${schema.type === "integer" ? 1 : "any"} value=${value ?? ""}
      onInput=${(event) => onChange(event.target.value === "" ? undefined : Number(event.target.value))} />`;
  if (schema.type === "string" && (value === undefined || typeof value === "string"))
    return html`<textarea ...${common} rows=${rowsOf(value, schema)} spellcheck=${false} value=${value ?? ""}
        onInput=${(event) => onChange(event.target.value)}></textarea>`;
  return html`<${JsonField} ...${common} value=${value} onChange=${onChange} rows=${4} />`;
}

function rowsOf(text, schema) {
  const lines = (text ?? "").split("\n").length;
  return Math.min(20, Math.max(lines, (text ?? "").length > 80 || schema.maxLength > 500 ? 3 : 1));
}

/** A value as JSON text; the value changes only while the text is JSON. */
function JsonField({ label, value, onChange, rows, ...rest }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [problem, setProblem] = useState(null);
  const edit = (next) => {
    setText(next);
    try {
      onChange(next.trim() === "" ? undefined : JSON.parse(next));
      setProblem(null);
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<textarea class="code" aria-label=${label} rows=${rows} spellcheck=${false} ...${rest} value=${text}
      onInput=${(event) => edit(event.target.value)}></textarea>
    ${problem && html`<p class="field-error" role="alert">This is not JSON yet: ${visible(problem)}</p>`}`;
}

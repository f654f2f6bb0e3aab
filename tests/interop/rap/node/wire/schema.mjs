// Is this a JSON Schema? RAP-151 asks it of every tool; RAP-152: draft 2020-12 unless `$schema` says otherwise.

import { isObject } from "./json.mjs";

const TYPES = ["null", "boolean", "object", "array", "number", "string", "integer"];

const isText = (value) => typeof value === "string";
const isNumber = (value) => typeof value === "number";
const isCount = (value) => Number.isInteger(value) && value >= 0;
const isFlag = (value) => typeof value === "boolean";
const isTextSet = (value) => Array.isArray(value) && value.every(isText) && new Set(value).size === value.length;
const isPattern = (value) => isText(value) && compiles(value);
const isTypeName = (value) => TYPES.includes(value);
const isType = (value) => isTypeName(value) || (isTextSet(value) && value.length > 0 && value.every(isTypeName));

const PLAIN = {
  $schema: isText,
  $id: isText,
  $ref: isText,
  $anchor: isText,
  $comment: isText,
  title: isText,
  description: isText,
  format: isText,
  type: isType,
  enum: Array.isArray,
  multipleOf: (value) => isNumber(value) && value > 0,
  maximum: isNumber,
  minimum: isNumber,
  exclusiveMaximum: isNumber,
  exclusiveMinimum: isNumber,
  maxLength: isCount,
  minLength: isCount,
  maxItems: isCount,
  minItems: isCount,
  maxProperties: isCount,
  minProperties: isCount,
  maxContains: isCount,
  minContains: isCount,
  pattern: isPattern,
  uniqueItems: isFlag,
  required: isTextSet,
  readOnly: isFlag,
  writeOnly: isFlag,
  deprecated: isFlag,
  examples: Array.isArray,
};
const ONE = [
  "additionalProperties",
  "propertyNames",
  "items",
  "contains",
  "not",
  "if",
  "then",
  "else",
  "unevaluatedItems",
  "unevaluatedProperties",
];
const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/** What is wrong with a tool's schema, as `where: what`; an empty list when nothing is. */
export function schemaFaults(schema) {
  if (!isObject(schema)) return ["#: must be an object"];
  return [...faultsAt(schema, "#", schema, 0)];
}

function* faultsAt(schema, where, root, depth) {
  if (isFlag(schema)) return;
  if (!isObject(schema)) return yield `${where}: must be an object or a boolean`;
  if (depth > 64) return yield `${where}: nested too deeply`;
  for (const [keyword, value] of Object.entries(schema)) {
    const at = `${where}/${keyword}`;
    if (Object.hasOwn(PLAIN, keyword) && !PLAIN[keyword](value)) yield `${at}: not a valid value`;
    if (keyword === "$ref" && isText(value) && target(root, value) === undefined) yield `${at}: leads nowhere`;
    for (const [name, inner] of subschemas(keyword, value)) yield* faultsAt(inner, `${at}${name}`, root, depth + 1);
    if (MAPS.includes(keyword) && !isObject(value)) yield `${at}: must be an object`;
    if (LISTS.includes(keyword) && !(Array.isArray(value) && value.length > 0))
      yield `${at}: must be a non-empty array`;
  }
}

function subschemas(keyword, value) {
  const isList = LISTS.includes(keyword) || keyword === "items"; // older drafts have a list of items
  if (isList && Array.isArray(value)) return value.map((item, index) => [`/${index}`, item]);
  if (ONE.includes(keyword)) return [["", value]];
  if (MAPS.includes(keyword) && isObject(value)) return Object.entries(value).map(([name, item]) => [`/${name}`, item]);
  return [];
}

/** Only references inside the same schema are followed: a schema must not make anybody fetch things (RAP-161). */
export function target(root, reference) {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  let place = root;
  for (const step of reference.slice(2).split("/")) {
    const name = unescape(step);
    if (typeof place !== "object" || place === null || !Object.hasOwn(place, name)) return undefined;
    place = place[name];
  }
  return place;
}

function unescape(step) {
  try {
    return decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return step;
  }
}

function compiles(pattern) {
  try {
    return new RegExp(pattern, "u") && true;
  } catch {
    return false;
  }
}

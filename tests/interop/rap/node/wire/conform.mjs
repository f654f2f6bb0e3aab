// Do these arguments fit this schema? RAP-023 in the runtime, RAP-046 in the tool.

import { isDeepStrictEqual } from "node:util";
import { isObject } from "./json.mjs";
import { target } from "./schema.mjs";

const length = (text) => [...text].length; // JSON Schema counts characters, not UTF-16 units

const IS = {
  null: (value) => value === null,
  boolean: (value) => typeof value === "boolean",
  object: isObject,
  array: Array.isArray,
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  string: (value) => typeof value === "string",
};

// Keyword to a test of the values it speaks about; each is `[applies to, holds(limit, value), words]`.
const PLAIN = {
  type: [() => true, (types, value) => [types].flat().some((type) => IS[type](value)), "must be of type"],
  enum: [() => true, (options, value) => options.some((option) => isDeepStrictEqual(option, value)), "must be one of"],
  const: [() => true, (only, value) => isDeepStrictEqual(only, value), "must be"],
  minimum: [IS.number, (limit, value) => value >= limit, "must be at least"],
  maximum: [IS.number, (limit, value) => value <= limit, "must be at most"],
  exclusiveMinimum: [IS.number, (limit, value) => value > limit, "must be above"],
  exclusiveMaximum: [IS.number, (limit, value) => value < limit, "must be below"],
  multipleOf: [IS.number, (step, value) => Number.isInteger(value / step), "must be a multiple of"],
  minLength: [IS.string, (limit, value) => length(value) >= limit, "must have a length of at least"],
  maxLength: [IS.string, (limit, value) => length(value) <= limit, "must have a length of at most"],
  pattern: [IS.string, (pattern, value) => new RegExp(pattern, "u").test(value), "must match"],
  minItems: [IS.array, (limit, value) => value.length >= limit, "must have at least this many items:"],
  maxItems: [IS.array, (limit, value) => value.length <= limit, "must have at most this many items:"],
  uniqueItems: [IS.array, (wanted, value) => !wanted || areUnique(value), "must have unique items:"],
  minProperties: [
    IS.object,
    (limit, value) => Object.keys(value).length >= limit,
    "must have at least this many members:",
  ],
  maxProperties: [
    IS.object,
    (limit, value) => Object.keys(value).length <= limit,
    "must have at most this many members:",
  ],
};

/** How `value` fails to fit `schema`, as `where: what`; an empty list when it fits. */
export function misfits(schema, value) {
  return [...at(schema, value, "#", schema, 0)];
}

function* at(schema, value, where, root, depth) {
  if (schema === true) return;
  if (schema === false) return yield `${where}: is not allowed`;
  if (depth > 200) return yield `${where}: the schema refers to itself without end`;
  const fits = (inner) => at(inner, value, where, root, depth + 1).next().done;

  for (const [keyword, [applies, holds, words]] of Object.entries(PLAIN)) {
    const limit = schema[keyword];
    if (limit !== undefined && applies(value) && !holds(limit, value))
      yield `${where}: ${words} ${JSON.stringify(limit)}`;
  }
  if (schema.$ref !== undefined) yield* at(target(root, schema.$ref) ?? false, value, where, root, depth + 1);
  for (const inner of schema.allOf ?? []) yield* at(inner, value, where, root, depth + 1);
  if (schema.anyOf && !schema.anyOf.some(fits)) yield `${where}: fits none of anyOf`;
  if (schema.oneOf && schema.oneOf.filter(fits).length !== 1) yield `${where}: must fit exactly one of oneOf`;
  if (schema.not !== undefined && fits(schema.not)) yield `${where}: fits what it must not`;
  if (schema.if !== undefined) {
    const branch = fits(schema.if) ? schema.then : schema.else;
    if (branch !== undefined) yield* at(branch, value, where, root, depth + 1);
  }
  if (isObject(value)) yield* inObject(schema, value, where, root, depth);
  if (Array.isArray(value)) yield* inArray(schema, value, where, root, depth);
}

function* inObject(schema, value, where, root, depth) {
  for (const name of schema.required ?? []) {
    if (!Object.hasOwn(value, name)) yield `${where}: needs ${JSON.stringify(name)}`;
  }
  const patterns = Object.entries(schema.patternProperties ?? {}).map(([text, inner]) => [
    new RegExp(text, "u"),
    inner,
  ]);
  for (const [name, member] of Object.entries(value)) {
    const named = Object.hasOwn(schema.properties ?? {}, name) ? [schema.properties[name]] : [];
    const matched = [...named, ...patterns.filter(([pattern]) => pattern.test(name)).map(([, inner]) => inner)];
    if (matched.length === 0 && schema.additionalProperties !== undefined) matched.push(schema.additionalProperties);
    for (const inner of matched) yield* at(inner, member, `${where}/${name}`, root, depth + 1);
    if (schema.propertyNames !== undefined) yield* at(schema.propertyNames, name, `${where}/${name}`, root, depth + 1);
  }
}

function* inArray(schema, value, where, root, depth) {
  const leading = schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : []);
  for (const [index, item] of value.entries()) {
    const inner = leading[index] ?? (Array.isArray(schema.items) ? schema.additionalItems : schema.items);
    if (inner !== undefined) yield* at(inner, item, `${where}/${index}`, root, depth + 1);
  }
  if (schema.contains === undefined) return;
  const found = value.filter((item) => at(schema.contains, item, where, root, depth + 1).next().done).length;
  if (found < (schema.minContains ?? 1) || found > (schema.maxContains ?? Infinity))
    yield `${where}: contains too few or too many`;
}

function areUnique(items) {
  return items.every((item, index) => !items.slice(0, index).some((other) => isDeepStrictEqual(other, item)));
}

// One JSON object per body: reading what strangers send, writing what strangers may read.

const MAX_DEPTH = 64;

/** A body that is not one JSON object in UTF-8. The message is safe to send back. */
export class Malformed extends Error {}

/** Bytes to an object; RAP-001, and E17: no list, no scalar, no BOM, nothing but UTF-8. RAP-410 limits the depth. */
export function decodeObject(bytes) {
  let value;
  try {
    // With `ignoreBOM` a byte order mark stays in the text, where JSON.parse refuses it.
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    throw new Malformed("the body is not JSON in UTF-8");
  }
  if (!isObject(value)) throw new Malformed("the body must be one JSON object");
  if (isDeeperThan(value, MAX_DEPTH)) throw new Malformed(`the body is nested deeper than ${MAX_DEPTH} levels`);
  return value;
}

/** An object to bytes; E37: no NaN, no infinity, no unpaired surrogate ever goes out. */
export function encode(value) {
  return Buffer.from(JSON.stringify(clean(value)), "utf-8");
}

export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** RAP-408: for optional members, `null` says the same as absence. */
export function isAbsent(value) {
  return value === undefined || value === null;
}

function isDeeperThan(value, limit) {
  let level = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > limit) return true;
    level = level.flatMap((item) => (typeof item === "object" && item !== null ? Object.values(item) : []));
  }
  return false;
}

function clean(value) {
  if (typeof value === "string") return value.toWellFormed();
  if (typeof value === "number" && !Number.isFinite(value)) throw new Error("JSON has no NaN and no infinity");
  if (Array.isArray(value)) return value.map(clean);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name.toWellFormed(), clean(member)]));
}

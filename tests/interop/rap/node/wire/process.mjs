// What both programs do as processes: speak JSON lines, and end when nobody is there any more.

/** RAP-413: callers pass ids, types and statuses here, never a callback URL, an `auth_url` or a token. */
export function lineWriter(stream) {
  return (record) => stream.write(`${JSON.stringify(record)}\n`);
}

/** End on SIGTERM and on SIGINT (2.16). */
export function endOnSignal(end) {
  process.once("SIGTERM", end);
  process.once("SIGINT", end);
}

/** `a,b` to a set; anything that `known` lacks is a usage fault. */
export function choicesOf(text, known) {
  const names = text.split(",").filter(Boolean);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    console.error(`unknown: ${unknown.join(", ")}; choose from ${known.join(", ")}`);
    process.exit(2);
  }
  return new Set(names);
}

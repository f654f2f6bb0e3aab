// The rules of a toolset manifest (2.1 and 3.8), which the tool keeps and the runtime checks.

import { isAbsent, isObject } from "./json.mjs";
import { schemaFaults } from "./schema.mjs";
import { isWebUrl } from "./send.mjs";

/** A7: the recommended alphabet is the only one accepted, on both sides (RAP-149, RAP-150). */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,128}$/;

/** Everything that makes the manifest invalid. One fault anywhere refuses all of it (RAP-154, RAP-155, E40). */
export function manifestFaults(manifest) {
  return [...toolsetFaults(manifest), ...toolsFaults(manifest.tools)];
}

function* toolsetFaults({ name, description, endpoint, needsMigration }) {
  const size = typeof name === "string" ? [...name].length : 0;
  if (size < 1 || size > 128) yield "name: must be a string of 1 to 128 characters"; // RAP-146
  if (!isAbsent(description) && typeof description !== "string") yield "description: must be a string";
  if (!isWebUrl(endpoint)) yield "endpoint: must be an absolute http or https URL"; // RAP-147
  if (needsMigration !== undefined && typeof needsMigration !== "boolean") yield "needsMigration: must be a boolean";
}

function* toolsFaults(tools) {
  if (!Array.isArray(tools) || tools.length === 0) return yield "tools: must be a non-empty array"; // RAP-148
  const seen = new Set();
  for (const [index, tool] of tools.entries()) {
    for (const fault of toolFaults(tool)) yield `tools/${index}/${fault}`;
    if (seen.has(tool?.name)) yield `tools/${index}/name: ${JSON.stringify(tool.name)} appears twice`; // A8
    seen.add(tool?.name);
  }
}

function* toolFaults(tool) {
  if (!isObject(tool)) return yield "must be an object";
  if (typeof tool.name !== "string" || !TOOL_NAME.test(tool.name)) yield "name: must match A-Z a-z 0-9 _ -, 1 to 128";
  if (typeof tool.description !== "string") yield "description: must be a string";
  for (const fault of schemaFaults(tool.inputSchema)) yield `inputSchema/${fault}`; // RAP-151, E41
  if (!isAbsent(tool.annotations) && !isObject(tool.annotations)) yield "annotations: must be an object";
  // RAP-165: a bad `displayScript` means default display and nothing else.
}

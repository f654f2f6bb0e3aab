// What the Node programs think of a message, without the network: one JSON line in, one out.
//
//   {"kind": "callback" | "manifest" | "invocation", "body": base64}  →  {"fault": string | null}
//
// It begins with {"port": 0}, because it is started like the others and needs none.

import { createInterface } from "node:readline";
import { invocationFault } from "./provider/call.mjs";
import { callbackFault } from "./runtime/callbacks.mjs";
import { Malformed, decodeObject } from "./wire/json.mjs";
import { manifestFaults } from "./wire/manifest.mjs";
import { isWebUrl } from "./wire/send.mjs";

const FAULTS = {
  callback: (message) => callbackFault(message, { allowLoopbackAuth: false }),
  manifest: (message) => manifestFaults(message)[0] ?? null,
  invocation: (message) => addressFault(message) ?? invocationFault(message),
};

function addressFault({ callback_url, group_id, id }) {
  const usable = isWebUrl(callback_url) && typeof group_id === "string" && typeof id === "string";
  return usable ? null : "it cannot be answered"; // RAP-407
}

function faultOf({ kind, body }) {
  try {
    return FAULTS[kind](decodeObject(Buffer.from(body, "base64")));
  } catch (fault) {
    if (fault instanceof Malformed) return fault.message;
    throw fault;
  }
}

console.log(JSON.stringify({ port: 0 }));
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify({ event: "verdict", fault: faultOf(JSON.parse(line)) }));
}

// A RAP runtime without a model, in plain Node, written from the requirement ledger alone.
//
//   node runtime.mjs [--state FILE] [--blind] [--allow-loopback-auth] [--attempts N] [--first-delay MS] [--cap MS]
//                    [--timeout MS] [--faults a,b]
//
// It takes commands as JSON lines on stdin (see runtime/commands.mjs), tells everything that happens as JSON lines on
// stdout, beginning with {"event":"ready","port":N}, and ends when stdin closes or on SIGTERM. Callback URLs are good
// for one call and until its thread closes (RAP-007, RAP-008).

import { parseArgs } from "node:util";
import { Commands } from "./runtime/commands.mjs";
import { Dispatch } from "./runtime/dispatch.mjs";
import { FAULTS, Intake } from "./runtime/intake.mjs";
import { Notices } from "./runtime/notices.mjs";
import { Told } from "./runtime/told.mjs";
import { PendingCalls, Threads } from "./runtime/threads.mjs";
import { Toolsets } from "./runtime/toolsets.mjs";
import { Journal } from "./wire/journal.mjs";
import { listen } from "./wire/listen.mjs";
import { choicesOf, endOnSignal, lineWriter } from "./wire/process.mjs";

const { values: given } = parseArgs({
  options: {
    state: { type: "string" },
    blind: { type: "boolean", default: false }, // the model cannot see images
    "allow-loopback-auth": { type: "boolean", default: false }, // the development switch of RAP-414
    attempts: { type: "string", default: "5" },
    "first-delay": { type: "string", default: "500" },
    cap: { type: "string", default: "30000" },
    timeout: { type: "string", default: "15000" },
    faults: { type: "string", default: "" },
  },
});

const told = new Told(lineWriter(process.stdout));
const emit = (record) => told.tell(record);
const journal = new Journal(given.state);
const world = {
  emit,
  told,
  options: {
    images: !given.blind,
    allowLoopbackAuth: given["allow-loopback-auth"],
    timeout: Number(given.timeout),
    pace: { attempts: Number(given.attempts), first: Number(given["first-delay"]), cap: Number(given.cap) },
  },
  faults: choicesOf(given.faults, [...FAULTS, "invoke-twice"]),
  threads: new Threads(journal),
  calls: new PendingCalls(journal),
  toolsets: new Toolsets(emit),
  callbackBase: () => `http://127.0.0.1:${journal.get("port")}`,
};
world.notices = new Notices(world);
world.dispatch = new Dispatch(world);

// E47: callback URLs that are out in the world must work again, so a restart comes back to the same port.
const server = await listen(new Intake(world).routes(), { port: journal.get("port") ?? 0 });
journal.set("port", server.address().port);
emit({ event: "ready", port: server.address().port });
for (const call of world.calls.all()) {
  if (call.state === "registered" && call.body) world.dispatch.send(call); // nobody knows whether it went out; RAP-404
}

endOnSignal(() => process.exit(0));
await new Commands(world).readAll(process.stdin);
process.exit(0);

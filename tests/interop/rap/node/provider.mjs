// A RAP tool provider in plain Node, written from the requirement ledger alone.
//
//   node provider.mjs [--port N] [--state FILE] [--bearer TOKEN] [--prefix /x] [--migration-key KEY]
//                     [--authorize-at URL] [--patience MS] [--first-delay MS] [--cap MS] [--faults a,b]
//
// It binds loopback, by default at a port chosen by the system, prints one line {"port": N} on stdout (2.16), logs
// JSON lines on stderr, and ends when stdin closes or on SIGTERM.

import { parseArgs } from "node:util";
import { Calls } from "./provider/calls.mjs";
import { FAULTS, Faults } from "./provider/faults.mjs";
import { LoginPage } from "./provider/login-page.mjs";
import { Migration } from "./provider/migration.mjs";
import { Notes } from "./provider/notes.mjs";
import { Grants } from "./provider/oauth.mjs";
import { Outbox } from "./provider/outbox.mjs";
import { Prompts } from "./provider/prompts.mjs";
import { guard, routes } from "./provider/routes.mjs";
import { TOOLS } from "./provider/tools.mjs";
import { Journal } from "./wire/journal.mjs";
import { listen } from "./wire/listen.mjs";
import { manifestFaults } from "./wire/manifest.mjs";
import { choicesOf, endOnSignal, lineWriter } from "./wire/process.mjs";

const NAME = "greenhouse";
const INVOKE_PATH = "/rap/run"; // E24: the endpoint is not below the base URL, and it has a query

const { values: options } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    state: { type: "string" },
    bearer: { type: "string" },
    prefix: { type: "string", default: "" },
    "migration-key": { type: "string" },
    "authorize-at": { type: "string" },
    patience: { type: "string", default: "600000" }, // the documented limit of RAP-228 and RAP-248: ten minutes
    "first-delay": { type: "string", default: "500" },
    cap: { type: "string", default: "30000" },
    faults: { type: "string", default: "" },
  },
});

let port;
const base = () => `http://127.0.0.1:${port}`;
const log = lineWriter(process.stderr);
const journal = new Journal(options.state);
const faults = new Faults(choicesOf(options.faults, FAULTS), log);
const outbox = new Outbox({ log, faults, pace: { first: Number(options["first-delay"]), cap: Number(options.cap) } });
const patience = Number(options.patience);
const notes = new Notes(journal);
const prompts = new Prompts({ outbox, patience, base });
const grants = new Grants({ outbox, patience, base, authorizeAt: () => options["authorize-at"] });
const calls = new Calls({ journal, tools: TOOLS, log, house: { outbox, notes, prompts, grants } });
const migration = new Migration({ key: options["migration-key"], name: NAME, calls, notes, log });

function manifest() {
  return {
    name: NAME,
    description: "Probes and valves of one greenhouse",
    endpoint: `${base()}${INVOKE_PATH}?toolset=${NAME}`,
    tools: TOOLS.map(({ run, events, ...tool }) => tool),
    ...(options["migration-key"] && { needsMigration: true }), // RAP-320, RAP-329
  };
}

const guarded = guard(options.bearer);
const server = await listen(
  [
    ...routes({ prefix: options.prefix, invokePath: INVOKE_PATH, guarded, manifest, calls, notes, faults, log }),
    ...migration.routes(options.prefix, guarded),
    ...prompts.routes(),
    ...grants.routes(),
    ...new LoginPage().routes(),
  ],
  { port: Number(options.port) },
);
({ port } = server.address());
const broken = manifestFaults(manifest());
if (broken.length > 0) throw new Error(`the manifest breaks the rules: ${broken.join("; ")}`);

console.log(JSON.stringify({ port })); // RAP-141: everything is ready by now
calls.resume();

const end = () => process.exit(0); // what is not delivered yet waits in the journal
endOnSignal(end);
process.stdin.on("end", end).on("error", end).resume();

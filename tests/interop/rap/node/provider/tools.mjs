// The greenhouse: a tool for every kind of message a provider can send.

import { ToolError } from "./call.mjs";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const BEDS = 40;

const object = (properties, required = Object.keys(properties)) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});
const bed = { type: "integer" }; // the range is checked by hand, to give a better answer than a schema does

/** RAP-084: an error says what could be done. */
function existing(number) {
  if (number < 1 || number > BEDS) throw new ToolError(`bed ${number} does not exist; valid beds are 1 to ${BEDS}`);
  return number;
}

/** `run(args, call, house)` gives a text or `{content, display_as}`; with `events`, the result opens a subscription. */
export const TOOLS = [
  {
    name: "echo",
    description: "Return the text unchanged",
    inputSchema: object({ text: { type: "string", maxLength: 100_000 } }),
    annotations: { readOnly: true, idempotent: true },
    run: ({ text }) => text,
  },
  {
    name: "read_probe",
    description: "Read one soil probe",
    inputSchema: object({ bed }),
    annotations: { readOnly: true, "x-greenhouse-zone": "north" }, // RAP-163
    displayScript: '"probe of bed " + args.bed', // RAP-166
    run: (args) => JSON.stringify({ bed: existing(args.bed), moisture: 0.42 }), // RAP-074
  },
  {
    name: "list_beds",
    description: "Count the beds; takes no arguments",
    inputSchema: { type: "object", additionalProperties: false }, // RAP-153
    run: () => JSON.stringify({ beds: BEDS }),
  },
  {
    name: "photograph",
    description: "Take a photo of one bed",
    inputSchema: object({ bed }),
    run: (args) => ({
      // RAP-076: words before the picture. RAP-082: from the richest to the simplest, the last a short text.
      content: [
        { type: "text", text: `Photo of bed ${existing(args.bed)}, 1x1 PNG.` },
        { type: "image", data: PIXEL, mediaType: "image/png" },
      ],
      display_as: [
        { type: "image", content: { data: PIXEL, mediaType: "image/png" } },
        {
          type: "diff",
          content: {
            path: "beds.toml",
            patch: "--- beds.toml\n+++ beds.toml\n@@ -1 +1 @@\n-photos = 0\n+photos = 1\n",
          },
        },
        { type: "text", content: `photo of bed ${args.bed}` },
      ],
    }),
  },
  {
    name: "grow",
    description: "Wait for a plant; takes as many milliseconds as asked, minutes in a real greenhouse", // RAP-060
    inputSchema: object({ ms: { type: "integer", minimum: 0, maximum: 600_000 } }),
    annotations: { longRunning: true },
    run: async ({ ms }, call) => {
      await call.pause(ms);
      return `grown after ${ms} ms`;
    },
  },
  {
    name: "explode",
    description: "Fail in a way that nobody foresaw",
    inputSchema: object({}),
    run: () => undefined.secretInternalName, // E21
  },
  {
    name: "watch",
    description: "Subscribe to a bed; each event is JSON in text",
    inputSchema: object(
      {
        bed,
        events: { type: "integer", minimum: 0, maximum: 1000 },
        every_ms: { type: "integer", minimum: 0, maximum: 60_000 },
        associative: { type: "boolean" },
        final: { type: "boolean" },
      },
      ["bed", "events"],
    ),
    run: (args, call) => `Watching bed ${existing(args.bed)}. Subscription id ${call.invocation.id}.`, // RAP-182, E10
    async *events({ bed: number, events, every_ms = 5, associative = false, final = true }, call, sent) {
      for (let n = sent + 1; n <= events; n += 1) {
        await call.pause(every_ms);
        const last = final && n === events;
        yield { text: JSON.stringify({ bed: number, n }), associative, ...(last && { final: true }) }; // RAP-184
      }
    },
  },
  {
    name: "open_valve",
    description: "Open the main valve; asks the user first",
    inputSchema: object({ minutes: { type: "integer", minimum: 1, maximum: 60 } }),
    annotations: { destructive: true },
    run: async ({ minutes }, call, house) => {
      const choices = [`Open for ${minutes} minutes`, "Open for 1 minute", "Leave closed"]; // RAP-251
      const picked = await house.prompts.choose(call, { prompt: "Open the main valve?", choices, fallback: 2 });
      return `picked ${picked}: ${choices[picked]}`;
    },
  },
  {
    name: "read_mail",
    description: "Read the newest letter; needs the user's authorization",
    inputSchema: object({}),
    annotations: { requiresAuth: "greenhouse-mail" }, // RAP-167
    run: async (_, call, house) => {
      const token = await house.grants.token(call);
      return token ? "one letter: the tomatoes are ripe" : "no letters";
    },
  },
  {
    name: "paint",
    description: "Show a patch in the diff view; an empty patch clears the view",
    inputSchema: object({ patch: { type: "string" } }),
    run: async ({ patch }, call, house) => {
      await house.outbox.send(
        call,
        call.message("view_update", { view_type: "diff", content: patch ? { patch } : {} }),
      ); // RAP-267
      return patch ? "painted" : "cleared";
    },
  },
  {
    name: "remember",
    description: "Keep a note for this thread and its children",
    inputSchema: object({ name: { type: "string" }, value: { type: "string" } }),
    run: ({ name, value }, call, house) => {
      house.notes.keep(call, name, value);
      return "noted";
    },
  },
  {
    name: "recall",
    description: "Read a note of this thread or of its ancestors", // RAP-053
    inputSchema: object({ name: { type: "string" } }),
    run: ({ name }, call, house) => {
      const value = house.notes.find(call, name);
      if (value === undefined) throw new ToolError(`there is no note ${JSON.stringify(name)}; keep one with remember`);
      return value;
    },
  },
];

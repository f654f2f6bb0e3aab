// Call a tool through the gateway from TypeScript. Needs only `fetch`: Node 22.6 or newer, Deno, Bun.
// AGENTTOOL_URL=http://127.0.0.1:8642 AGENTTOOL_KEY=atk_… node --experimental-strip-types examples/gateway_client.ts
const url = process.env.AGENTTOOL_URL ?? "http://127.0.0.1:8642";
const key = process.env.AGENTTOOL_KEY;

async function request(method: string, path: string, body?: unknown, idempotencyKey?: string): Promise<any> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (key) headers["Authorization"] = `Bearer ${key}`;
  if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
  const reply = await fetch(url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const document = await reply.json();
  if (!reply.ok) throw new Error(`${reply.status}: ${document.detail} ${document.pointer ?? ""}`);
  return document;
}

async function call(tool: string, args: object): Promise<any> {
  let state = await request("POST", "/v1/calls?wait=20", { tool, arguments: args }, crypto.randomUUID());
  while (state.result === null) {
    if (state.approval_id) console.error(`${state.invocation_id} waits for an approval`);
    state = await request("GET", `/v1/calls/${state.invocation_id}?wait=60`);
  }
  return state.result;
}

const result = await call(process.argv[2] ?? "files.list_files", JSON.parse(process.argv[3] ?? "{}"));
for (const item of result.content) console.log(item.text ?? item.type);
process.exitCode = result.is_error ? 1 : 0;
export {};

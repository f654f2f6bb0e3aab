// Builds the requests of cases with swagger-client: node build_requests.mjs MODULES < cases.json
import fs from 'node:fs';
import { createRequire } from 'node:module';
const SwaggerClient = createRequire(process.argv[2] + '/')('swagger-client');
const client = SwaggerClient.default ?? SwaggerClient;
const found = [];
for (const each of JSON.parse(fs.readFileSync(0))) {
  const { spec } = await client.resolve({ spec: each.spec });
  const request = client.buildRequest({ ...each, spec, operationId: 'op' });
  let body = request.body;
  if (body && typeof body.entries === 'function') body = [...body.entries()];
  found.push({ url: request.url, method: request.method, headers: request.headers, body });
}
console.log(JSON.stringify(found));

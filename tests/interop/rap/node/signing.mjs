// Signs and checks requests by what the how-to page says of signatures, and by nothing else.
//   node signing.mjs sign SECRET SPEAKER METHOD URL   < body   prints the header's value
//   node signing.mjs check SECRET SPEAKER METHOD URL HEADER  < body   prints true or false
import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

const [task, secret, speaker, method, address, header] = process.argv.slice(2);
const url = new URL(address); // its origin leaves out the usual port, as the page wants it
const body = readFileSync(0);

function signature(moment, nonce) {
  const bodyDigest = createHash("sha256").update(body).digest("hex");
  const lines = ["rap-signature-2", speaker, url.origin, moment, nonce, method, url.pathname + url.search, bodyDigest];
  return createHmac("sha256", secret).update(lines.join("\n")).digest("hex");
}

function check() {
  const parts = Object.fromEntries(header.split(",").map((part) => part.split(/=(.*)/s, 2)));
  const expected = Buffer.from(signature(parts.t, parts.n));
  const given = Buffer.from(parts.s ?? "");
  const isRight = expected.length === given.length && timingSafeEqual(expected, given);
  const isForUs = parts.v === "2" && parts.from === speaker && parts.to === url.origin;
  return isRight && isForUs && Math.abs(Date.now() / 1000 - Number(parts.t)) <= 300;
}

if (task === "sign") {
  const moment = String(Math.floor(Date.now() / 1000));
  const nonce = randomBytes(16).toString("hex");
  console.log(`v=2,from=${speaker},to=${url.origin},t=${moment},n=${nonce},s=${signature(moment, nonce)}`);
} else {
  console.log(check());
}

// What must survive a restart: a map whose every change is appended to a file before anybody acts on it.

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";

/** Without a path it remembers for as long as the process lives. */
export class Journal {
  #entries = new Map();
  #file = null;

  constructor(path) {
    if (!path) return;
    for (const line of earlier(path)) this.#apply(line);
    this.#file = openSync(path, "a", 0o600); // RAP-113: callback URLs are secrets
  }

  get(key) {
    return this.#entries.get(key);
  }

  set(key, value) {
    this.#write({ key, value });
  }

  delete(key) {
    this.#write({ key });
  }

  /** Every value whose key begins so. */
  under(prefix) {
    return [...this.#entries].filter(([key]) => key.startsWith(prefix)).map(([, value]) => value);
  }

  close() {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  #write(change) {
    const line = JSON.stringify(change);
    if (this.#file !== null) {
      writeSync(this.#file, `${line}\n`);
      fsyncSync(this.#file);
    }
    this.#apply(line); // from the text, so that memory and file never share an object with the caller
  }

  #apply(line) {
    const { key, value } = JSON.parse(line);
    if (value === undefined) this.#entries.delete(key);
    else this.#entries.set(key, value);
  }
}

/** A crash may have cut the last line. Nobody acted on it, so it goes away before the next one is written. */
function earlier(path) {
  if (!existsSync(path)) return [];
  const text = readFileSync(path, "utf-8");
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole.length < text.length) truncateSync(path, Buffer.byteLength(whole));
  return whole.split("\n").slice(0, -1);
}

// Which tools a session has: discovery, all-or-nothing validation, clashes (3.8).

import { Malformed, decodeObject } from "../wire/json.mjs";
import { manifestFaults } from "../wire/manifest.mjs";
import { Unreachable, get } from "../wire/send.mjs";

/** RAP-189, RAP-419: names that no toolset may bring. */
export const RESERVED = { event: "receive_event__injected", cancel: "cancel_subscription" };

/** E25: no double slash, prefix kept. */
export const baseOf = (url) => url.replace(/\/+$/, "");

export function credentials({ bearer }) {
  return bearer ? { Authorization: `Bearer ${bearer}` } : {};
}

export class Toolsets {
  #sessions = new Map(); // session to base URL to {server, manifest}; RAP-158: nothing is shared between sessions
  #servers = new Map(); // every configured server, whether or not it could be loaded (RAP-300)
  #emit;

  constructor(emit) {
    this.#emit = emit;
  }

  get servers() {
    return [...this.#servers.values()];
  }

  /** Load what this session lacks; what it has stays as it is (RAP-157, E42). One failure hurts no other (E43). */
  async discover(session, servers) {
    const loaded = this.#sessions.get(session) ?? new Map();
    this.#sessions.set(session, loaded);
    await Promise.all(
      servers.map(async ({ url, bearer }) => {
        const server = { base: baseOf(url), bearer };
        this.#servers.set(server.base, server);
        if (loaded.has(server.base)) return;
        const manifest = await this.#load(session, server);
        if (manifest) loaded.set(server.base, { server, manifest });
      }),
    );
    const { offered, clashes } = this.#offer(session);
    for (const name of clashes) this.#emit({ event: "clash", session, name });
    this.#emit({ event: "tools", session, names: [...offered.keys()] });
  }

  async #load(session, server) {
    const refuse = (faults) => this.#emit({ event: "toolset_refused", session, server: server.base, faults });
    try {
      const reply = await get(`${server.base}/.well-known/rap-toolset`, { headers: credentials(server) }); // RAP-143
      if (reply.status !== 200) return refuse([`discovery was answered by ${reply.status}`]);
      const manifest = decodeObject(reply.bytes);
      const faults = manifestFaults(manifest);
      if (faults.length > 0) return refuse(faults); // RAP-155, E40
      this.#emit({ event: "toolset", session, server: server.base, name: manifest.name, manifest });
      return manifest;
    } catch (fault) {
      if (fault instanceof Malformed || fault instanceof Unreachable) return refuse([fault.message]);
      throw fault;
    }
  }

  /** A8, RAP-156: a name that two toolsets bring, or that is reserved, is offered by nobody. */
  #offer(session) {
    const bringers = new Map();
    for (const { server, manifest } of this.of(session)) {
      for (const tool of manifest.tools)
        bringers.set(tool.name, [...(bringers.get(tool.name) ?? []), { server, manifest, tool }]);
    }
    const isClash = ([name, toolsets]) => toolsets.length > 1 || Object.values(RESERVED).includes(name);
    const entries = [...bringers];
    return {
      clashes: entries.filter(isClash).map(([name]) => name),
      offered: new Map(entries.filter((entry) => !isClash(entry)).map(([name, [only]]) => [name, only])),
    };
  }

  of(session) {
    return [...(this.#sessions.get(session)?.values() ?? [])];
  }

  find(session, name) {
    return this.#offer(session).offered.get(name);
  }

  /** After a migration: the session goes on with the destinations (RAP-322). */
  async replace(session, from, to) {
    this.#sessions.get(session).delete(from.base);
    const needed = [...this.#sessions.values()].some((loaded) => loaded.has(from.base));
    if (!needed) this.#servers.delete(from.base);
    await this.discover(session, [{ url: to, bearer: from.bearer }]);
  }
}

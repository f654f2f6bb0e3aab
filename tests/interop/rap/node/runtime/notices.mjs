// What a runtime tells providers outside of invocations: cancellations, closures, migrations, selections.

import { persist, post } from "../wire/send.mjs";
import { credentials, baseOf } from "./toolsets.mjs";

export class Notices {
  #world;

  constructor(world) {
    this.#world = world;
  }

  cancelled({ thread, id }) {
    this.#tellAll("cancel_tool_call", { thread_id: thread, tool_call_id: id });
  }

  closed(thread) {
    this.#tellAll("close_thread", { thread_id: thread });
  }

  /** Every server, at the same time, once, and nobody waits for it: RAP-280 to RAP-284, RAP-300 to RAP-302, E26. */
  #tellAll(notice, body, servers = this.#world.toolsets.servers) {
    for (const server of servers) {
      const status = post(`${server.base}/${notice}`, body, { headers: credentials(server) });
      status
        .then(
          (reply) => reply.status,
          () => 0,
        )
        .then((code) => this.#world.emit({ event: "notice", notice, server: server.base, status: code, ...body }));
    }
  }

  /** RAP-244: one selection for one prompt (RAP-416); `null` stands for a dismissal and sends the default (E31). */
  async choose(thread, id, selected) {
    const { calls, emit, options } = this.#world;
    const call = calls.find(thread, id);
    if (call?.prompt?.kind !== "choice" || call.prompt.answered)
      return emit({ event: "refused", thread, id, reason: "nothing to choose" });
    const picked = selected ?? call.prompt.fallback;
    calls.change(call, { prompt: { ...call.prompt, answered: true } });
    const attempt = () => post(call.prompt.response_url, { id, selected: picked });
    const status = await persist(attempt, { ...options.pace, attempts: 3 }).then(
      (reply) => reply.status,
      () => 0,
    );
    return emit({ event: "selected", thread, id, selected: picked, status });
  }

  /** RAP-321, RAP-322, RAP-325: flagged servers only, all of them or the session stays where it is. */
  async migrate(session, destinations) {
    const { toolsets, threads, emit } = this.#world;
    const moving = toolsets
      .of(session)
      .filter(({ manifest }) => manifest.needsMigration)
      .map(({ server }) => server);
    const to = new Map(Object.entries(destinations).map(([from, destination]) => [baseOf(from), destination]));
    const homeless = moving.filter(({ base }) => !to.has(base));
    const faults = homeless.map(({ base }) => `${base}: no destination is known`);
    if (faults.length === 0) {
      const replies = await Promise.all(moving.map((server) => this.#move(server, session, to.get(server.base))));
      faults.push(...replies.filter(Boolean));
    }
    if (faults.length > 0) return emit({ event: "migration_failed", session, faults });
    for (const server of moving) {
      await toolsets.replace(session, server, to.get(server.base));
      // RAP-328: the source cleans up what it still has.
      for (const { id } of threads.ofSession(session)) this.#tellAll("close_thread", { thread_id: id }, [server]);
    }
    return emit({ event: "migrated", session, servers: moving.map(({ base }) => base) });
  }

  /** E45: it may take minutes; not tried again (1.5). Resolves to what went wrong. */
  async #move(server, session_id, destination_url) {
    const options = { headers: credentials(server), timeout: 300_000 };
    const reply = await post(`${server.base}/migrate`, { session_id, destination_url }, options).catch((fault) => ({
      status: 0,
      bytes: fault.message,
    }));
    return reply.status === 200 ? null : `${server.base}: ${reply.status} ${reply.bytes}`;
  }
}

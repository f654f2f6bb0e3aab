// State of a session: notes kept by thread, inherited by child threads, moved by a migration.

/** Keys are data in a map, so a thread id such as `../../x` reaches nothing else (RAP-307, E28). */
export class Notes {
  #journal;

  constructor(journal) {
    this.#journal = journal;
  }

  keep(call, name, value) {
    this.adopt([{ root: call.root, thread: call.thread, name, value }]);
  }

  /** The nearest thread wins: itself, then its parent, at last the root. */
  find(call, name) {
    const threads = [...(call.invocation.thread_ancestors ?? []), call.thread].reverse();
    return threads.map((thread) => this.#journal.get(keyOf({ thread, name }))).find(Boolean)?.value;
  }

  forget(thread) {
    this.#drop((note) => note.thread === thread);
  }

  of(session) {
    return this.#all().filter((note) => note.root === session);
  }

  adopt(notes) {
    for (const note of notes) this.#journal.set(keyOf(note), note);
  }

  forgetSession(session) {
    this.#drop((note) => note.root === session);
  }

  #all() {
    return this.#journal.under("note:");
  }

  #drop(doomed) {
    for (const note of this.#all().filter(doomed)) this.#journal.delete(keyOf(note));
  }
}

const keyOf = ({ thread, name }) => `note:${JSON.stringify([thread, name])}`;

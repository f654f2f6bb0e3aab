// Everything that was told on stdout, so that a command can wait for something.

export class Told {
  #write;
  #all = [];
  #waiting = new Set();

  constructor(write) {
    this.#write = write;
  }

  tell(record) {
    this.#all.push(record);
    this.#write(record);
    for (const look of this.#waiting) look();
  }

  /** Resolves to true once `holds` is true of all that was told, to false after the timeout. */
  until(holds, timeout) {
    return new Promise((resolve) => {
      const end = (found) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve(found);
      };
      const look = () => holds(this.#all) && end(true);
      const timer = setTimeout(() => end(false), timeout);
      this.#waiting.add(look);
      look();
    });
  }
}

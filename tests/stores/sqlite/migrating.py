"""Rounds of killing processes that bring an older file up to date: `migrating.py FOLDER ROUNDS SEED`.

Prints what it saw as JSON, and a line per broken promise. In each round two processes open a copy of a file of the first
schema at once and are killed at a random moment; then the file is of the one schema or the other, whole, and whoever
opens it next finds everything there.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from agenttool.journal.steps import STEPS
from agenttool.ports.stores import Head
from agenttool.stores.fact_codec import encode_fact
from agenttool.stores.sqlite.fact_rows import link
from agenttool.stores.sqlite.schema import MIGRATIONS, migrate
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.testing.call_facts import story_of

CALLS = 1000


def fill(path):
    """Make a file of the first schema, a row for each fact; give the end of its chain."""
    position = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = WAL")
        migrate(file, "x", MIGRATIONS[:1])
        (chained,) = file.execute("SELECT hash FROM anchors").fetchone()
        file.execute("BEGIN")
        for number in range(CALLS):
            for fact in story_of(number):
                position, chained = position + 1, link(chained, told := encode_fact(fact))
                file.execute("INSERT INTO facts VALUES (?, ?, ?, ?)", (position, fact.invocation_id, chained, told))
        file.execute("COMMIT")
    return Head(position=position, hash=chained.hex())


def fork(path):
    child = os.fork()
    if child == 0:
        try:
            SqliteStore.open(path, steps=STEPS)
        finally:
            os._exit(0)
    return child


def version_of(path):
    with closing(sqlite3.connect(path)) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
        (is_new,) = file.execute("SELECT count(*) FROM pragma_table_info('facts') WHERE name = 'last'").fetchone()
    return version, bool(is_new)


async def look(path, pinned):
    """Open the file as the next one would, and tell what is wrong with it."""
    store = SqliteStore.open(path, steps=STEPS)
    wrong = [str(flaw) for flaw in store.log.verify(pinned)]
    if store.log.head() != pinned:
        wrong.append(f"the log ends at {store.log.head()} and not at {pinned}")
    await store.close()
    return wrong


def main(folder, rounds, seed):
    rng, seen, wrong = random.Random(seed), Counter(), []
    old = Path(folder) / "old.db"
    pinned = fill(old)
    whole = shutil.copy(old, Path(folder) / "whole.db")
    start = time.monotonic()
    os.waitpid(fork(whole), 0)
    longest = time.monotonic() - start
    for number in range(rounds):
        path = shutil.copy(old, Path(folder) / f"{number}.db")
        children = [fork(path), fork(path)]
        time.sleep(rng.random() * longest)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        version, is_new = version_of(path)
        seen[version] += 1
        longest *= 1.5 if version == 1 else 0.7  # as long as it takes now, on a machine that others use, too
        if (version, is_new) not in ((1, False), (len(MIGRATIONS), True)):
            wrong.append(f"round {number}: schema {version}, and its tables {'are' if is_new else 'are not'} new")
        wrong += asyncio.run(look(path, pinned))
        Path(path).unlink()
    print(json.dumps({"seed": seed, "before": seen[1], "after": seen[len(MIGRATIONS)]}))
    print("\n".join(wrong[:20]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""A disk that fails while callers wait, and is mended: `failing.py (io|full|sync) FOLDER`. Prints what happened as JSON.

`io`: the process may not let files grow (RLIMIT_FSIZE), so that the kernel refuses writes and SQLite sees an I/O error.
`full`: the folder is a file system of half a megabyte that another file fills up, so that the kernel says ENOSPC; run it
in a mount namespace of its own.
`sync`: the test that runs it makes `fdatasync` fail now and then, as `strace` can; here it is only written.
"""

import asyncio
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.ports.world import Moment
from agenttool.stores.sqlite import group_commit
from agenttool.stores.sqlite.store import SqliteStore

sys.path.append(str(Path(__file__).parents[2] / "support"))

from call_facts import facts_of_call, invocation_number

CALLERS = 10


async def settled(store):
    try:
        await store.log.settle()
    except StoreError as error:
        return str(error)
    return None


async def one_call(store, number):
    for fact in facts_of_call(number):
        store.log.append(fact)
    return await settled(store)


async def fact_by_fact(store, number):
    """Write a call as a lone caller does, each fact for itself; give what became of each."""
    became = []
    for fact in facts_of_call(number):
        store.log.append(fact)
        became.append(await settled(store))
    return became


class Io:
    """Files may not grow beyond what the write-ahead log already is."""

    def __init__(self, folder):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.limit = (folder / "state.db-wal").stat
        _, self.hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def breaks(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit().st_size, self.hard))

    def mends(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.hard, self.hard))


class Full:
    """There is no room left."""

    def __init__(self, folder):
        self.filler = folder / "filler"

    def breaks(self):
        with self.filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass

    def mends(self):
        self.filler.unlink()


async def write_one_by_one(store):
    """Write calls and return how many facts could not be settled at first, once all of them are."""
    became = [each for number in range(1, 1 + CALLERS) for each in await fact_by_fact(store, number)]
    for _ in range(CALLERS):
        if await settled(store) is None:
            break
    return len(became) - became.count(None)


async def main(mode, folder):
    store = SqliteStore.open(folder / "state.db", steps=STEPS)
    await store.open_calls.renew_lease(
        Moment(2**62)
    )  # a process that writes alone by the shortest path has renewed its lease
    if mode == "sync":
        failed = await write_one_by_one(store)
        flaws = [str(flaw) for flaw in store.log.verify()]
        print(json.dumps({"failed": failed, "last": store.log.last, "flaws": flaws}))
        return
    assert await one_call(store, 1) is None
    disk = {"io": Io, "full": Full}[mode](folder)
    disk.breaks()
    alone = await fact_by_fact(store, 2)
    # Enough of them that the log has to grow, whatever room there was left in it.
    together = await asyncio.gather(*[one_call(store, number) for number in range(3, 3 + CALLERS)])
    seen = store.log.last
    disk.mends()
    after = await one_call(store, 3 + CALLERS)
    calls = [invocation_number(number) for number in range(1, 4 + CALLERS)]
    whole = all(len(store.log.facts_of(call)) == 5 for call in calls)
    flaws = [str(flaw) for flaw in store.log.verify()]
    await store.close()
    print(json.dumps({"alone": alone, "together": together, "seen": seen, "after": after, "whole": whole,
                      "flaws": flaws}))  # fmt: skip


if __name__ == "__main__":
    group_commit.SINGLE_WAIT_S = 60.0  # a lone caller waits for any disk by itself
    if sys.argv[1] == "full":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", sys.argv[2]], check=True)
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

"""One of several processes that write to one file: `sharing.py FOLDER NUMBER CALLS`; number 0 only looks at the file."""

import asyncio
import json
import sys
from itertools import pairwise
from pathlib import Path

from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.testing.contracts.story import story_of

CALLERS = 4


async def write(store, first, count):
    numbers = iter(range(first, first + count))
    done = 0

    async def caller():
        nonlocal done
        for number in numbers:
            facts = story_of(number)
            for fact in facts:
                store.log.append(fact)
                await store.log.settle()
            done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(caller())
    print(done)


def look(store):
    facts = [fact for _, fact in store.log.read(0, 1_000_000)]
    writers = [int(fact.invocation_id[4:], 16) // 1000 for fact in facts]
    print(
        json.dumps(
            {
                "calls": len({fact.invocation_id for fact in facts}),
                "facts": len(facts),
                "switches": sum(one != next_one for one, next_one in pairwise(writers)),
                "flaws": [str(flaw) for flaw in store.log.verify()],
            }
        )
    )


async def main(folder, number, count):
    store = SqliteStore.open(Path(folder) / "state.db", steps=STEPS)
    if number:
        print("ready", flush=True)
        sys.stdin.readline()  # everybody begins at once
        await write(store, number * 1000, count)
    else:
        look(store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))

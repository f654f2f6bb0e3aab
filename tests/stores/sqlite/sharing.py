"""One of several processes that write to one file: `sharing.py FOLDER NUMBER`; number 0 only looks at the file.

Each writes until the test stops it, and says `shared` once others have written in between a few times; at the end it
says how many calls it wrote.
"""

import asyncio
import json
import sys
from itertools import count, pairwise
from pathlib import Path

from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.store import SqliteStore

sys.path.append(str(Path(__file__).parents[2] / "support"))

from call_facts import facts_of_call

CALLERS = 4
PER_WRITER = 1_000_000
ENOUGH = 5


async def write(store, first):
    stopped = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
    numbers, done, mine, others = count(first), 0, 0, [0]

    async def caller():
        nonlocal done, mine
        while not stopped.done():
            for fact in facts_of_call(next(numbers)):
                store.log.append(fact)
                mine += 1
                await store.log.settle()
                notice(store.log.last - mine)
            done += 1

    def notice(theirs):
        """Others have written if there is more that cannot be ours."""
        if theirs > others[-1]:
            others.append(theirs)
            if len(others) == ENOUGH:
                print("shared", flush=True)

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(caller())
    print(done)


def look(store):
    facts = [fact for _, fact in store.log.read(0, PER_WRITER)]
    writers = [int(fact.invocation_id[4:], 16) // PER_WRITER for fact in facts]
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


async def main(folder, number):
    store = SqliteStore.open(Path(folder) / "state.db", steps=STEPS)
    if number:
        print("ready", flush=True)
        sys.stdin.readline()  # all processes begin at once
        await write(store, number * PER_WRITER)
    else:
        look(store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

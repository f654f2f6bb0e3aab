"""Rounds of killing: processes write calls through the store, are killed at random moments, and the file is looked at.

Run as a program: `crashing.py FOLDER ROUNDS SEED`. Prints what it saw as JSON, and a line per broken promise. In each
round one or two processes write, forked from one that has everything loaded, so that hundreds of rounds take seconds;
in some of them the write-ahead log is moved into the file all the time, so that this is cut short, too. Some have six
callers who share commits, and some a lone one, who goes the shortest way.
"""

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from agenttool.journal.steps import STARTED, STEPS
from agenttool.ports.stores import SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.stores.sqlite import group_commit, writer
from agenttool.stores.sqlite.store import SqliteStore

sys.path.append(str(Path(__file__).parents[2] / "support"))

from call_facts import facts_of_call, invocation_number

CALLERS = 6
PER_ROUND = 20_000
PER_WRITER = 10_000
LONGEST_S = 0.03


async def one_call(store, number, say):
    """Write a call the way the pipeline does, and say what is settled once it is."""
    log, calls, call = store.log, store.open_calls, invocation_number(number)
    facts = facts_of_call(number)
    before = facts_of_call(number, until=STARTED)
    for fact in before:
        log.append(fact)
    calls.save(SavedCheckpoint(call, kind="started", body=b"%d" % number))
    await log.settle()
    say(b"s%d\n" % number)
    for fact in facts[len(before) : -1]:
        log.append(fact)
    await asyncio.sleep(0)
    log.append(facts[-1])
    calls.remove(call)
    await log.settle()
    say(b"e%d\n" % number)


async def fact_by_fact(store, number, say):
    """Write a call with a commit for each fact, and nothing but its facts to say that it has begun."""
    for fact in facts_of_call(number):
        store.log.append(fact)
        await store.log.settle()
        if fact.step is STARTED:
            say(b"s%d\n" % number)
    say(b"e%d\n" % number)


async def write_for_ever(path, first, say, *, is_alone):
    store = SqliteStore.open(path, steps=STEPS)
    numbers = iter(range(first, first + PER_WRITER))

    async def caller(write):
        for number in numbers:
            await write(store, number, say)

    if is_alone:
        await store.open_calls.renew_lease(
            Moment(2**62)
        )  # nothing is said of calls begun by one who never said that they live
        await caller(fact_by_fact)
    async with asyncio.TaskGroup() as group:
        for _ in range(CALLERS):
            group.create_task(caller(one_call))


def start(path, first, rng):
    """Fork a process that writes for ever; give its id and where to read what it says."""
    reading, writing = os.pipe()
    pages, is_alone = rng.choice([10, writer.CHECKPOINT_PAGES]), rng.choice([False, True])
    child = os.fork()
    if child == 0:
        os.close(reading)
        writer.CHECKPOINT_PAGES, group_commit.SINGLE_WAIT_S = pages, 60.0  # a lone caller waits for any disk by itself
        asyncio.run(write_for_ever(path, first, lambda word: os.write(writing, word), is_alone=is_alone))
        os._exit(0)
    os.close(writing)
    return child, reading


def a_round(path, first, rng):
    """Start writers, kill each a while after its first word, and give all that they said was settled."""
    children = [start(path, first + PER_WRITER * place, rng) for place in range(rng.choice([1, 2]))]
    words = []
    for child, reading in children:
        select.select([reading], [], [], 20)
        time.sleep(rng.random() * LONGEST_S)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for _, reading in children:
        with os.fdopen(reading, "rb") as said:
            words += said.read().decode().split()
    return {int(word[1:]) for word in words if word[0] == "s"}, {int(word[1:]) for word in words if word[0] == "e"}


async def look(path, started, ended):
    """Yield every broken promise: what was said is there, and no call is half written."""
    store = SqliteStore.open(path, steps=STEPS)
    wrong = []
    for number in started | ended:
        call = invocation_number(number)
        taken = [fact.step.name for fact in store.log.facts_of(call)]
        whole = [fact.step.name for fact in facts_of_call(number)]
        held = await store.open_calls.get(call)
        if taken != whole[: len(taken)] or len(taken) < 3:
            wrong.append(f"call {number} was started and has only {taken}")
        if number in ended and taken != whole:
            wrong.append(f"call {number} was ended and has only {taken}")
        if (taken == whole) != (held is None):
            wrong.append(f"call {number} has {taken} and is held: {held is not None}")
    await store.close()
    return wrong


async def verify(path):
    store = SqliteStore.open(path, steps=STEPS)
    flaws = [str(flaw) for flaw in store.log.verify()]
    last = store.log.last
    await store.close()
    return flaws, last


def main(folder, rounds, seed):
    rng = random.Random(seed)
    path = Path(folder) / "state.db"
    wrong, seen = [], [0, 0]
    for number in range(1, rounds + 1):
        started, ended = a_round(path, number * PER_ROUND, rng)
        seen = [seen[0] + len(started), seen[1] + len(ended)]
        wrong += asyncio.run(look(path, started, ended))
        if number % 50 == 0 or number == rounds:
            flaws, last = asyncio.run(verify(path))
            wrong += flaws
    print(json.dumps({"seed": seed, "rounds": rounds, "started": seen[0], "ended": seen[1], "facts": last}))
    print("\n".join(wrong[:20]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

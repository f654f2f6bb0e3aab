"""Rounds of killing: processes make calls on one store, are killed at random moments, and a survivor is asked.

Run as a program: `crashing.py FOLDER ROUNDS SEED`. Prints what it saw as JSON, and a line per broken promise. In each
round one to three processes call, answer and recover the calls of others, forked from one that has everything loaded; some
are killed before they have said a word, and to some of them the disk fails now and then. Each says what it was given:
`r` and a result, `a` and the answer that was taken, `q` and a call that waits, `x` and what should never happen. Every
tenth round one process survives, answers what is open and recovers the rest; then the ledger of effects, the log and the
stored bytes have to agree with all that was said.
"""

import asyncio
import io
import json
import os
import pickle
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import islice

import living

from agenttool import ToolCall
from agenttool.call.call_state import MAX_ATTEMPTS
from agenttool.codec import read, write
from agenttool.conformance.validate.validation import Validation
from agenttool.errors import StoreError
from agenttool.policy.approvals import Answered
from agenttool.records import (
    OrderingPolicy,
    PermissionDecision,
    ResultPersistence,
    SchedulerPolicy,
    ToolInvocation,
    ToolResult,
)
from agenttool.stores.payloads import digests_in, flaw_of, is_there

CALLERS = 6
LONGEST_S = 0.06
SURVIVES_EVERY = 10
FAILS, SPEAKS = 0.25, 0.8
"""How often the disk fails to a process, and how often a process lives until it has said something."""
MOST_WORDS = 8
"""A process lives at least until it has said up to so much, so that a busy machine kills none before it did anything."""
PATIENCE_S = 60
IN_ORDER = SchedulerPolicy(scheduler_policy_id="sched_x", ordering_policy=OrderingPolicy.PRESERVE_TERMINAL_ORDER)
NAMES = ["pay", "pay", "pay", "put", "put", "look", "look", "send", "send", "tell", "twice", "courier", "trip"]
NOT_KEPT = ("journal_unavailable", "result_not_stored", "waits_for_answer")
"""What a caller gets in place of a result: that it could not be stored, or that another process has the call."""
NOTHING_RAN = {"process_died", "rejected", "journal_unavailable", "declaration_changed"}


async def decide(rt, rng, say):
    """Answer an open question of any process, and say so if the answer was taken."""
    for question in (await rt.approvals.list(limit=3))[:1]:
        say("q", question.invocation_id)
        answer = rng.choice(["allow", "deny", "edit"])
        edit = {"number": -1 - rng.randrange(100)} if answer == "edit" else None
        words = "allow" if edit else answer
        taken = await rt.approvals.decide(question.approval_id, words, input=edit, by="chance")
        if isinstance(taken, Answered):
            say("a", {"decision": question.decision_id, "answer": answer})


async def fail(rng):
    """Let this process write no file, now and then."""
    while True:
        await asyncio.sleep(rng.random() * LONGEST_S)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        await asyncio.sleep(rng.random() * LONGEST_S)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def some_call(rng):
    return ToolCall(name=rng.choice(NAMES), arguments={"number": rng.randrange(1000)})


async def keep_calling(rt, surface, rng, say):
    while True:
        call = some_call(rng)
        result = await rt.call(call.name, call.arguments, surface=surface)
        say("r", write(result).decode())


async def keep_calling_together(rt, surface, rng, say):
    while True:
        for result in await rt.batch([some_call(rng) for _ in range(3)], surface=surface, policy=IN_ORDER):
            say("r", write(result).decode())


async def keep_answering(rt, rng, say):
    while True:
        with suppress(StoreError):  # on a disk that fails just now
            await decide(rt, rng, say)
        await asyncio.sleep(rng.random() * 0.01)


async def live(folder, seed, say):
    """Call and answer until killed."""
    rng = random.Random(seed)
    async with living.open_runtime(folder) as rt, asyncio.TaskGroup() as group:
        surface = await rt.surface()
        if rng.random() < FAILS:
            group.create_task(fail(rng))
        group.create_task(keep_answering(rt, rng, say))
        group.create_task(keep_calling_together(rt, surface, rng, say))
        for _ in range(CALLERS):
            group.create_task(keep_calling(rt, surface, rng, say))


def fork(folder, seed):
    """Fork a process that lives until it is killed; give its id and where to read what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)

        def say(*word):
            os.write(writing, json.dumps(word).encode() + b"\n")

        try:
            asyncio.run(live(folder, seed, say))
        except BaseException as error:  # noqa: BLE001 -- whatever it is, it is reported
            say("x", "".join(traceback.format_exception(error)))
        finally:
            os._exit(0)
    os.close(writing)
    return child, reading


def a_round(folder, rng):
    """Start processes, kill each a while after some of its words or before the first, and give all that they said."""
    children = [fork(folder, rng.random()) for _ in range(rng.choice([1, 2, 2, 3]))]
    lines = []
    for child, reading in children:
        with os.fdopen(reading, "rb") as words:
            lines += islice(words, rng.randint(1, MOST_WORDS) if rng.random() < SPEAKS else 0)
            time.sleep(rng.random() * LONGEST_S)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lines += words
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def survive_apart(folder, said, seed):
    """Survive in a process of one's own: a fork has none of the threads that store bytes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as file:
                known = len(said)
                ends, found = asyncio.run(survive(folder, said, random.Random(seed)))
                pickle.dump((ends, found, said[known:]), file)
        except BaseException:  # noqa: BLE001 -- whatever it is, a reader finds nothing to read
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        ends, found, more = pickle.load(file)  # noqa: S301 -- our own words
    os.waitpid(child, 0)
    said += more
    return ends, found


async def survive(folder, said, rng):
    """Recover and answer everything that is left; return how calls ended, and every broken promise."""
    async with living.open_runtime(folder) as rt:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await rt._core.durability.checkpoints.page(limit=1):
                    await decide(rt, rng, lambda *word: said.append(list(word)))
                    await rt.calls.recover()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            left = await rt._core.durability.checkpoints.page(limit=3)
            return Counter(), [f"left open: {[(each.invocation_id, each.kind) for each in left]}"]
        flaws = [str(flaw) for flaw in rt._core.journal.log.verify()]
        exported = [record async for record in rt.journal.export()]
        payloads = rt._core.payloads.store
        stored = [each for each in digests_in(exported) if await is_there(payloads, each)]
        flaws += [str(flaw) for each in stored if (flaw := await flaw_of(payloads, each, 0)) is not None]
        ends = Counter(
            "succeeded" if each.error is None else each.error.error_code
            for each in exported
            if isinstance(each, ToolResult)
        )
        flaws += [each async for each in missing(rt, exported, said)]
        return ends, flaws + invalid(exported) + list(broken(exported, said, living.ledger_of(folder)))


def invalid(exported):
    with Validation() as validation:
        lines = b"\n".join(map(write, exported))
        return [str(each) for each in (*validation.read("export", io.BytesIO(lines)), *validation.conclude())]


async def missing(rt, exported, said):
    """Yield the bytes that are missing although a caller got a result that refers to them."""
    stored = {each.result_id: each.persisted_ref for each in exported if isinstance(each, ResultPersistence)}
    given = {read(word.encode(), ToolResult).result_id for kind, word in said if kind == "r"}
    for result_id in given & stored.keys():
        ref = stored[result_id]
        if ref is not None and await rt.journal.payload(ref) is None:
            yield f"the bytes of {result_id} are gone"


def broken(exported, said, ledger):
    """Hold what was said, what is on record and what was done against each other."""
    results = {each.invocation_id: each for each in exported if isinstance(each, ToolResult)}
    inputs = {each.invocation_id: each.model_input for each in exported if isinstance(each, ToolInvocation)}
    answers = defaultdict(list)
    for each in exported:
        if isinstance(each, PermissionDecision) and each.answers is not None:
            answers[each.answers].append(each)
    retained = {write(each).decode() for each in results.values()}
    for kind, word in said:
        if kind == "r" and word not in retained and not any(each in word for each in NOT_KEPT):
            yield f"a result was returned and is not stored: {word}"
        if kind == "q" and word not in results:
            yield f"{word} was asked about and has no result"
        if kind == "x":
            yield word
    yield from wrong_answers([word for kind, word in said if kind == "a"], answers, results)
    yield from wrong_effects(results, inputs, answers, ledger)
    parents = {each.invocation_id: each.parent_invocation_id for each in exported if isinstance(each, ToolInvocation)}
    nested = Counter((parents[call], number) for name, call, number in ledger if name == "mark")
    yield from (f"{parent} marked {number} {count} times" for (parent, number), count in nested.items() if count > 1)
    yield from (f"{call} has no result" for call in inputs.keys() - results.keys())


def ended_without_its_journal(decision, results):
    """Return whether the call of a decision ended because its process could not write to the journal.

    Known gap: another process can still answer the question of such a call until its end is on disk; that answer has
    no effect and no record.
    """
    result = results.get("inv_" + decision.partition("_")[2].rpartition("-")[0])
    return result is not None and result.error is not None and result.error.error_code in NOT_KEPT


def wrong_answers(given, answers, results):
    counts = Counter(each["decision"] for each in given)
    yield from (f"{decision} was answered {count} times" for decision, count in counts.items() if count > 1)
    for each in given:
        written = [(one.behavior.value, bool(one.user_modified)) for one in answers[each["decision"]]]
        expected = ("deny", False) if each["answer"] == "deny" else ("allow", each["answer"] == "edit")
        if written != [expected] and not (written == [] and ended_without_its_journal(each["decision"], results)):
            yield f"the answer {each} is written down as {written}"


def wrong_effects(results, inputs, answers, ledger):
    edits = {one.invocation_id: one.updated_input for each in answers.values() for one in each if one.user_modified}
    counts = Counter((name, call) for name, call, _ in ledger)
    for (name, call), count in counts.items():
        if count > (MAX_ATTEMPTS if name == "put" else 1):
            yield f"{name} {call} was done {count} times"
    for name, call, number in ledger:
        if number != edits.get(call, inputs[call])["number"]:
            yield f"{name} {call} was done with {number}"
    done = {call for _, call, _ in ledger}
    for call, result in results.items():
        text = result.content[0].text if result.error is None and result.content else None
        if (text or "").startswith("wrote") and call not in done:
            yield f"{call} succeeded and was not done"
        if result.error is not None and result.error.error_code in NOTHING_RAN and call in done:
            yield f"{call} ended as {result.error.error_code} and was done"


def main(folder, rounds, seed):
    rng, said, wrong = random.Random(seed), [], []
    for number in range(1, rounds + 1):
        said += a_round(folder, rng)
        if number % SURVIVES_EVERY == 0 or number == rounds:
            ends, found = survive_apart(folder, said, rng.random())
            wrong += found
    counts = Counter(kind for kind, _ in said)
    seen = {"seed": seed, "rounds": rounds, "results": counts["r"], "answers": counts["a"], "ends": ends}
    print(json.dumps({**seen, "effects": len(living.ledger_of(folder))}))
    print("\n".join(wrong[:20]))


if __name__ == "__main__":
    living.hurry()
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""A hundred thousand waiting calls cost nothing to those who do not ask for them."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from call_facts import facts_of_call, invocation_number

from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.stores import SavedCheckpoint
from agenttool.ports.world import Moment

WAITING = 100_000
BOUND_S = 60


def question(number):
    return f"apr_{number:032x}-1"


@pytest.fixture
def effort():
    """Count what the database engine did, in its own instructions: the same on every machine."""

    async def effort(store, coroutine):
        counts = [0]

        def count():
            counts[0] += 100

        connections = [store._reader, store.log.group._writer._connection]
        for connection in connections:
            connection.set_progress_handler(count, 100)
        found = await coroutine
        for connection in connections:
            connection.set_progress_handler(None, 0)
        return counts[0], found

    return effort


async def hear(child, owner, what):
    """Give the next line that a process says; if it says none, fail with who did not say what."""
    try:
        async with asyncio.timeout(BOUND_S):
            line = await child.stdout.readline()
    except TimeoutError:
        pytest.fail(f"process {owner!r} lives, and did not say {what} within {BOUND_S} s")
    assert line, f"process {owner!r} ended before it said {what}"
    return line


async def run_at_once(program, folder, owners):
    """Run a program once for each owner, let all of them begin together, and give what they say."""

    async def start(owner):
        return await asyncio.create_subprocess_exec(sys.executable, program, folder, owner, stdin=PIPE, stdout=PIPE)

    children = {owner: await start(owner) for owner in owners}
    try:
        for owner, child in children.items():
            assert await hear(child, owner, "that it is ready") == b"ready\n"
        for child in children.values():
            child.stdin.write(b"go\n")
        for owner, child in children.items():
            assert await hear(child, owner, "that it began to take") == b"began\n"
        for child in children.values():
            child.stdin.write(b"go on\n")
        said = [json.loads(await hear(child, owner, "what it took")) for owner, child in children.items()]
        for child in children.values():
            child.stdin.write(b"done\n")
        async with asyncio.timeout(BOUND_S):
            assert [await child.wait() for child in children.values()] == [0] * len(children)
    finally:
        for child in children.values():
            if child.returncode is None:
                child.kill()
                await child.wait()
    return said


@pytest.mark.slow
async def test_concurrent_processes_claim_each_call_once_and_answer_each_question_once(open_store, path):
    store = open_store("dead")
    for number in range(120):
        waits = {"approval_id": question(number)} if number % 2 else {}
        store.open_calls.save(SavedCheckpoint(invocation_number(number), kind="started", body=b"", **waits))
    await store.close()
    said = await run_at_once(Path(__file__).with_name("claiming.py"), path.parent, "abc")
    answered = [each for one in said for each in one["answered"]]
    assert sorted(answered) == [question(number) for number in range(1, 120, 2)]
    taken = [each for one in said for each in one["taken"]]
    assert sorted(taken) == [invocation_number(number) for number in range(120)]
    assert all(one["taken"] for one in said)


@pytest.mark.soak
async def test_answering_one_of_a_hundred_thousand_reads_one(open_store, effort):
    store = open_store("a")
    for number in range(WAITING):
        store.open_calls.save(
            SavedCheckpoint(
                invocation_number(number),
                kind="asked",
                body=b"x" * 200,
                approval_id=question(number),
                expires_at_ns=2**60,
            )
        )
    await store.close()

    store = open_store("b")
    calls = store.open_calls
    await calls.renew_lease(Moment(10))
    one = question(77_777)
    for asking in (
        calls.by_approval(one),
        calls.get(invocation_number(500)),
        calls.awaiting_answer(limit=5),
        calls.awaiting_answer(after=one, limit=5),
        calls.due(now=Moment(1), limit=10),
        calls.answer(one, b"yes", now_ns=1),
        calls.answers(after=0, limit=10),
        calls.claim_one(invocation_number(3), now=Moment(1)),
    ):
        spent, found = await effort(store, asking)
        assert spent < 1000, found
    assert await calls.answer(one, b"no", now_ns=1) is AnswerStatus.ANSWERED
    spent, found = await effort(store, calls.due(now=Moment(1), limit=10))
    assert [call.invocation_id for call in found] == [invocation_number(77_777)]
    assert spent < 1000
    await store.close()


async def test_a_call_is_removed_in_one_transaction_with_its_last_fact(open_store, path, tamper):
    store = open_store()
    facts = facts_of_call(1)
    for fact in facts[:3]:
        store.log.append(fact)
    store.open_calls.save(SavedCheckpoint(invocation_number(1), kind="started", body=b"top secret"))
    await store.log.settle()
    tamper("CREATE TRIGGER broken BEFORE DELETE ON open_calls BEGIN SELECT RAISE(ABORT, 'no'); END")
    for fact in facts[3:]:
        store.log.append(fact)
    store.open_calls.remove(invocation_number(1))
    with pytest.raises(Exception, match="no"):
        await store.log.settle()
    assert store.log.last == 3
    tamper("DROP TRIGGER broken")
    await store.log.settle()
    assert store.log.last == 5
    assert await store.open_calls.get(invocation_number(1)) is None
    await store.close()


async def test_secrets_of_a_call_that_ended_are_not_left_in_the_file(open_store, path):
    store = open_store()
    store.open_calls.save(
        SavedCheckpoint(invocation_number(1), kind="started", body=b"correct horse battery", approval_id=question(1))
    )
    await store.open_calls.settle()
    await store.open_calls.answer(question(1), b"staple, edited", now_ns=1)
    store.open_calls.remove(invocation_number(1))
    await store.close()
    assert sorted(path.parent.glob("state.db*")) == [path]
    assert b"correct horse" not in path.read_bytes()
    assert b"staple" not in path.read_bytes()


async def test_a_checkpoint_of_a_call_that_ends_before_a_commit_is_not_written(open_store, path):
    store = open_store()
    await store.open_calls.renew_lease(Moment(2**62))
    first, *rest = facts_of_call(1)
    store.log.append(first)
    store.open_calls.save(SavedCheckpoint(invocation_number(1), kind="started", body=b"correct horse battery"))
    for fact in rest:
        store.log.append(fact)
    store.open_calls.remove(invocation_number(1))
    await store.log.settle()
    assert len(store.log.stored_facts_of(invocation_number(1))) == len(facts_of_call(1))
    assert b"correct horse" not in path.with_name("state.db-wal").read_bytes()
    await store.close()


async def test_a_call_whose_removal_is_not_durable_yet_is_not_listed_as_waiting(open_store):
    store = open_store()
    for number in (1, 3):
        store.open_calls.save(
            SavedCheckpoint(invocation_number(number), kind="asked", body=b"", approval_id=question(number))
        )
    await store.open_calls.settle()
    store.open_calls.remove(invocation_number(1))
    assert [each.invocation_id for each in await store.open_calls.awaiting_answer(limit=1)] == [invocation_number(3)]
    await store.close()

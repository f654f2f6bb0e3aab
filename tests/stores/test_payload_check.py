"""Bytes that were changed behind the log's back show; bytes that have expired do not."""

import time

from agenttool import tool
from agenttool.assemble import declared
from agenttool.journal.steps import STEPS
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule, RuleBook
from agenttool.ports.facts import Evidence
from agenttool.records import Behavior, RuleSource
from agenttool.runtime import Runtime, World
from agenttool.stores.payloads import ObjectPayloads, digests_in, flaw_of, is_there
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.world import SystemClock, UniqueIds

ALLOW = RuleBook([Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))])


@tool(max_inline_chars=50)
async def dump(lines: int) -> str:
    """Return a lot."""
    return "\n".join("x" * 40 for _ in range(lines))


async def a_large_result(folder):
    """Make a call whose bytes go to the folder, through a runtime that keeps its journal in a file."""
    store = SqliteStore.open(folder / "state.db", steps=STEPS)
    payloads = ObjectPayloads.open(folder / "payloads")
    world = World(clock=SystemClock(), ids=UniqueIds(), log=store.log, payloads=payloads, open_calls=store.open_calls)
    async with Runtime(world, tools=[declared(dump)], policy=Policy(book=ALLOW)) as runtime:
        result = await runtime.call("dump", {"lines": 300}, surface=await runtime.surface())
    await store.log.settle()
    return store, payloads, result


async def flaws(store, payloads):
    placed = [(position, fact) for position, fact in store.log.read(0, 100) if isinstance(fact.data, Evidence)]
    found = [(position, digest) for position, fact in placed for digest in digests_in(fact.data.records(fact))]
    checked = [
        await flaw_of(payloads, digest, position) for position, digest in found if await is_there(payloads, digest)
    ]
    return [flaw for flaw in checked if flaw is not None]


async def test_changed_bytes_show_where_the_log_speaks_of_them(tmp_path):
    store, payloads, _ = await a_large_result(tmp_path)
    assert await flaws(store, payloads) == []
    (file,) = (each for each in (tmp_path / "payloads").rglob("*") if each.is_file())
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    (flaw,) = await flaws(store, payloads)
    assert flaw.what == "payload"
    assert "was changed" in flaw.found
    facts = dict(store.log.read(0, 100))
    assert facts[flaw.position].step.name == "persisted"
    await store.close()


async def test_the_envelope_digest_and_reason_stay_when_the_bytes_have_expired(tmp_path):
    store, payloads, result = await a_large_result(tmp_path)
    call = result.invocation_id
    assert await payloads.expire(time.time_ns() + 10**9) == 1
    assert await flaws(store, payloads) == []
    await store.close()

    store = SqliteStore.open(tmp_path / "state.db", steps=STEPS)
    world = World(clock=SystemClock(), ids=UniqueIds(), log=store.log, payloads=payloads, open_calls=store.open_calls)
    async with Runtime(world) as runtime:
        envelope = await runtime.journal.invocation(call)
        records = [record async for record in runtime.journal.export()]
    (kept,) = (record for record in records if type(record).__name__ == "ResultPersistence")
    assert (envelope.status, envelope.tool_id) == ("succeeded", "tool_local.dump")
    assert kept.persisted_ref.digest.startswith("sha256:")
    assert kept.reason
    assert await payloads.get(kept.persisted_ref.digest) is None
    assert result in records
    await store.close()

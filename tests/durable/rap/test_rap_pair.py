"""A runtime and a provider in two processes, faulty lines between them, and either killed at any time."""

import asyncio
import os
import random
from collections import Counter

import pytest

ROUNDS = int(os.environ.get("AGENTTOOL_RAP_ROUNDS", "60"))
CALLS = 4
EVENTS = 6
BOUND_S = 120
WORDS = {"append": "appended {}", "note": "noted {}", "ask": "do it {}"}


async def born(chance, provider, runtime, numbers):
    """Start both, either first; the other one comes when the first is well on its way, or at the same time."""
    begins = [provider.begin, lambda: runtime.begin(*numbers)]
    chance.shuffle(begins)
    await begins[0]()
    await asyncio.sleep(chance.choice((0.0, 0.3, 0.6)))
    await begins[1]()


async def killed(folder, seed, rounds, lives_of, ports, module):
    """Make calls while the one, the other or both die, round after round; return what the runtime printed."""
    chance, faults = random.Random(seed), module("faults")
    server_port, runtime_port = ports
    async with (
        lives_of("crashing.py", folder, server_port) as provider,
        faults.FaultyLine(server_port, seed) as there,
        faults.FaultyLine(runtime_port, seed + 1) as back,
        lives_of("living_runtime.py", folder, there.url, back.url, runtime_port) as runtime,
    ):
        await born(chance, provider, runtime, (0, CALLS))
        for number in range(1, rounds):
            there.is_stormy = back.is_stormy = chance.random() < 0.1
            if chance.random() < 0.8:  # else it dies on its way up
                await runtime.until("busy", within_s=4)
            await asyncio.sleep(chance.uniform(0, 0.3))
            victims = chance.choice(((provider,), (runtime,), (provider, runtime)))
            for victim in victims:
                await victim.end()
            match victims:
                case (one,) if one is provider:
                    await provider.begin()
                case (_,):
                    await runtime.begin(number * CALLS, CALLS)
                case _:
                    await born(chance, provider, runtime, (number * CALLS, CALLS))
        there.is_stormy = back.is_stormy = False
        await runtime.until("busy", within_s=4)
        await runtime.end()
        await provider.end()
        await born(chance, provider, runtime, (0, 0))
        assert await runtime.until("idle")
        there.harm = back.harm = 0.0
        return [line for line in runtime.reported if line.startswith("inv_")], Counter(there.done) + Counter(back.done)


async def looked_at(folder, living):
    """Open what is left of the runtime; return its records and the events that were not handled."""
    async with living.opened(folder, "http://127.0.0.1:9", "http://127.0.0.1:9") as rt:
        assert await rt._core.durability.checkpoints.page(limit=1) == []
        assert list(rt._core.journal.log.verify()) == []
        return [record async for record in rt.journal.export()], await rt.sources.get("rap").subscriptions.events(
            limit=100_000
        )


def by_call(records, kind):
    """Give the one record of a kind that each call has."""
    found = [record for record in records if type(record).__name__ == kind]
    assert set(Counter(record.invocation_id for record in found).values()) <= {1}
    return {record.invocation_id: record for record in found}


def check(started, records, events, effects):
    """Hold what happened to what was promised, call by call."""
    invocations, results = by_call(records, "ToolInvocation"), by_call(records, "ToolResult")
    assert invocations.keys() == results.keys() >= set(started)
    seen = {key: [] for key in invocations}
    for event in events:
        seen[event.arguments["original_tool_call_id"]].append(event.text)
    for key, invocation in invocations.items():
        kind, number = invocation.tool_id.rpartition(".")[2], invocation.model_input["number"]
        text, happened = results[key].content[0].text, effects[f"{kind} {number}"]
        if results[key].is_error and results[key].error.error_code == "process_died":
            assert key not in started
            assert happened == 0
        elif results[key].is_error:
            assert "the tool's server was restarted" in text
            assert kind in ("append", "ask")
            assert happened <= 1
        elif kind == "watch":
            assert seen[key] == [f"{number}:{place}" for place in range(EVENTS)]
        else:
            assert text == WORDS[kind].format(number)
            assert happened == 1 or (happened > 1 and kind == "note")
    return Counter("unknown" if each.is_error else "known" for each in results.values())


def run(folder, rounds, lives_of, free_port, module):
    seed = int(os.environ.get("AGENTTOOL_RAP_SEED", random.randrange(2**32)))
    print("seed", seed)
    living = module("living_runtime")

    async def bounded():
        async with asyncio.timeout(BOUND_S + 10 * rounds):
            ports = (free_port(), free_port())
            started, harm = await killed(folder, seed, rounds, lives_of, ports, module)
            return started, harm, *await looked_at(folder, living)

    started, harm, records, events = asyncio.run(bounded())
    ends = check(started, records, events, Counter((folder / "effects").read_text().splitlines()))
    print("calls", sum(ends.values()), dict(ends), "events", len(events), "faults", dict(harm))


@pytest.mark.soak
@pytest.mark.requirement("RAP-400", "RAP-401", "RAP-404", "RAP-128", "RAP-095", "RAP-098", "RAP-402")
def test_either_dies_many_times_and_nothing_is_lost_and_nothing_happens_twice(tmp_path, lives_of, free_port, module):
    run(tmp_path, ROUNDS, lives_of, free_port, module)

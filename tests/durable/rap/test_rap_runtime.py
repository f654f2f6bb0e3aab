"""A runtime and a RAP server in two processes, with a faulty line between them, and the runtime killed at any time."""

import asyncio
import os
import random
import signal
import socket
import sys
from collections import Counter
from contextlib import asynccontextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("AGENTTOOL_RAP_ROUNDS", "8"))
CALLS = 10
BOUND_S = 240


def _module(name):
    spec = spec_from_file_location(name, HERE / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


faults, living = _module("faults"), _module("living_runtime")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@asynccontextmanager
async def child(*words):
    process = await asyncio.create_subprocess_exec(sys.executable, *map(str, words), stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def listens(port):
    for _ in range(2000):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.02)


async def heard(process, started):
    """Keep the ids that a runtime prints; tell whether it came to rest."""
    while line := (await process.stdout.readline()).decode().strip():
        if line == "idle":
            return True
        started.append(line)
    return False


async def kill_and_look(tmp_path, seed):
    chance, started = random.Random(seed), []
    server_port, runtime_port = free_port(), free_port()
    async with (
        child(HERE / "providing.py", tmp_path, server_port),
        faults.FaultyProxy(server_port, seed) as there,
        faults.FaultyProxy(runtime_port, seed + 1) as back,
    ):
        await listens(server_port)
        for number in range(ROUNDS + 1):
            is_last = number == ROUNDS
            words = (HERE / "living_runtime.py", tmp_path, there.url, back.url, runtime_port, 0 if is_last else CALLS)
            async with child(*words) as runtime:
                listening = asyncio.ensure_future(heard(runtime, started))
                if is_last:
                    assert await listening
                else:
                    await listens(runtime_port)
                    await asyncio.wait([listening], timeout=chance.uniform(0, 2.0))
                    runtime.send_signal(signal.SIGKILL)
                    await listening
        there.harm = back.harm = 0.0
        async with living.opened(tmp_path, there.url, back.url) as rt:
            assert await rt._core.open_calls.page(limit=1) == []
            results = {each: await rt.result(each) for each in started}
            exported = [record async for record in rt.export()]
            assert list(rt._core.journal.log.verify()) == []
    return started, results, exported, Counter(there.done) + Counter(back.done)


@pytest.mark.slow
@pytest.mark.requirement("RAP-400", "RAP-401", "RAP-404", "RAP-128", "RAP-095")
def test_nothing_is_lost_and_nothing_happens_twice(tmp_path):
    seed = int(os.environ.get("AGENTTOOL_RAP_SEED", random.randrange(2**32)))
    print("seed", seed)
    living.hurry()

    async def bounded():
        async with asyncio.timeout(BOUND_S + 30 * ROUNDS):
            return await kill_and_look(tmp_path, seed)

    started, results, exported, harm = asyncio.run(bounded())
    print("calls", len(started), "faults", dict(harm))
    assert started
    assert {each: result is not None and not result.is_error for each, result in results.items()} == dict.fromkeys(
        started, True
    )
    ledger = Counter(line.split()[0] for line in (tmp_path / "ledger").read_text().splitlines())
    assert set(ledger.values()) == {1}
    assert set(started) <= set(ledger)
    ends = Counter(record.invocation_id for record in exported if type(record).__name__ == "ToolResult")
    assert set(ends.values()) == {1}
    assert set(ledger) <= set(ends)

"""Rounds over HTTP with three gateways on one store, which crash: `rounds.py FOLDER ROUNDS SEED [FIRST]`.

Each round has a store of its own. While clients make calls, gateways are killed and restarted, stopped for longer than
their lease and continued, or asked to stop; in some rounds the disk is slow. Then all gateways run until no call is
open, and `checks.py` compares the responses, the journal and the effects. Prints a line of JSON for each round with
faults, and one for all rounds. The number of a round and the seed decide what happens, except for the timing.
"""

import asyncio
import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from checks import check
from clients import Clients
from servers import COUNT, LEASE_S, Gateway, build_slow_sync, prepare

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
import warm_start

ROUND_S = 2.5
SYNC_MS = [0, 0, 0, 0, 60, 120]
PATIENCE_S = 40
CALLERS, FOLLOWERS = 5, 2


async def disturb(gateway, rng, seen):
    """Let a gateway crash, hang or restart until canceled."""
    while True:
        await asyncio.sleep(0.2 + rng.random() * 1.5)
        chance = rng.random()
        if chance < 0.5:
            seen["kills"] += 1
            await gateway.kill()
        elif chance < 0.8:
            seen["suspensions"] += 1
            await gateway.suspend(LEASE_S * (1.2 + rng.random()))
            continue
        else:
            seen["stops"] += 1
            await gateway.stop()
        await asyncio.sleep(rng.random() * 0.5)
        await gateway.start()


async def settle(clients):
    """Answer approvals until no call is open; return those that stay open."""
    end = time.monotonic() + PATIENCE_S
    while True:
        answered = await clients.answer_one()
        reply = await clients.ask("GET", "/v1/calls?open=true&limit=100", headers=clients.approver)
        still_open = (
            [f"{each['invocation_id']} {each['tool']} {each['status']}" for each in reply[1]["items"]]
            if reply and reply[0] == 200
            else None
        )
        if still_open == [] or time.monotonic() > end:
            return still_open
        if not answered:
            await asyncio.sleep(0.05)


async def play(folder, approver, rng, seen):
    """Play one round; return its clients, its gateways and its faults."""
    sync_ms = rng.choice(SYNC_MS) if "LD_PRELOAD" in os.environ else 0
    seen[f"rounds_with_syncs_of_{sync_ms}_ms"] += 1
    gateways = [Gateway(folder, number, sync_ms) for number in range(COUNT)]
    clients = Clients(gateways, approver, rng)
    faults = []
    try:
        await asyncio.gather(*(each.start() for each in gateways))
        makers = [asyncio.create_task(clients.make_calls()) for _ in range(CALLERS)]
        makers += [asyncio.create_task(clients.follow_calls()) for _ in range(FOLLOWERS)]
        makers.append(asyncio.create_task(clients.answer_approvals()))
        disturbing = [asyncio.create_task(disturb(each, random.Random(rng.random()), seen)) for each in gateways]
        await asyncio.sleep(ROUND_S)
        for each in disturbing:
            each.cancel()
        for each in await asyncio.gather(*disturbing, return_exceptions=True):
            if not isinstance(each, asyncio.CancelledError):
                raise each
        for each in gateways:
            if each.url is None:
                each.abandon()
                await each.start()
        clients.is_over = True
        await asyncio.gather(*makers)
        faults += [f"left open: {each}" for each in await settle(clients) or ()]
        for each in clients.known:
            if await clients.read_call(each) is None:
                faults.append(f"{each} cannot be read at the end: {clients.unread[each]}")
        await asyncio.gather(*(each.stop() for each in gateways))
    finally:
        for each in gateways:
            each.abandon()
        await clients.close()
    return clients, gateways, faults


def main(folder, rounds, seed, first=1):
    """Play the rounds, and print what was seen."""
    template = folder / "template"
    approver = prepare(template)
    seen, unknown, total = Counter(), Counter(), 0
    for number in range(first, first + rounds):
        began = time.monotonic()
        place = folder / f"round{number}"
        shutil.copytree(template, place)
        rng = random.Random(f"{seed} {number}")
        clients, gateways, faults = asyncio.run(play(place, approver, rng, seen))
        records, found = check(place, clients, gateways)
        faults += found
        seen["calls"] += len(records.calls)
        seen["responses"] += len(clients.seen)
        seen["answers"] += len(clients.answers)
        seen["seconds"] += round(time.monotonic() - began)
        for each in records.results:
            error = records.error_of(each) or "succeeded"
            seen[error] += 1
            if error == "unknown_after_crash":
                unknown[records.calls[each]["tool_id"].rpartition("shop.")[2]] += 1
        if faults:
            total += len(faults)
            print(json.dumps({"round": number, "seed": seed, "faults": faults[:20]}), flush=True)
        else:
            shutil.rmtree(place)
    kills = seen["kills"] or 1
    summary = {"seed": seed, "rounds": rounds, "faults": total, **seen, "unknown": unknown}
    print(json.dumps({**summary, "unknown_per_kill": round(seen["unknown_after_crash"] / kills, 2)}))
    return total


if __name__ == "__main__":
    chosen = Path(sys.argv[1]).resolve()
    if "LD_PRELOAD" not in os.environ:
        chosen.mkdir(parents=True, exist_ok=True)
        library = build_slow_sync(chosen)
        if library is not None:
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_PRELOAD": library})  # noqa: S606
    warm_start.install()
    sys.exit(1 if main(chosen, *map(int, sys.argv[2:])) else 0)

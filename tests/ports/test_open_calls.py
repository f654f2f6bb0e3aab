"""Whatever owners do, in whatever order: the file answers as the reference does."""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from call_facts import invocation_number
from hypothesis import given
from hypothesis import strategies as st
from reference_open_calls import CallTable, ReferenceOpenCalls

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.ports.stores import SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.stores.sqlite.store import SqliteStore

OWNERS = ("a", "b", "c")
OPENING = [("renew", "b", 30), ("renew", "c", 15)]
"""One that lives long, one that dies half-way, and one that nobody takes for alive."""

owners = st.sampled_from(OWNERS)
numbers = st.integers(1, 3)
moments = st.integers(1, 30)
deeds = st.one_of(
    st.tuples(st.just("hold"), owners, numbers, st.booleans(), st.none() | moments),
    st.tuples(st.just("release"), owners, numbers),
    st.tuples(st.just("renew"), owners, moments),
    st.tuples(st.just("claim"), owners, moments, st.integers(1, 3)),
    st.tuples(st.just("take"), owners, numbers, moments, st.booleans()),
    st.tuples(st.just("answer"), owners, numbers, moments),
    st.tuples(st.just("retire"), owners),
)


def question(number):
    return f"apr_{number:032x}-1"


async def claim(calls, *, now, limit):
    """Claim the calls that are due."""
    due = await calls.due(now=now, limit=limit)
    claimed = [await calls.claim_one(each.invocation_id, now=now, if_due=True) for each in due]
    return [each for each in claimed if each is not None]


async def do(calls, deed, *values):
    """Do one thing, and give what came of it."""
    outcome = None
    match deed, values:
        case "hold", (number, waits, expires):
            about = question(number) if waits else None
            calls.save(
                SavedCheckpoint(
                    invocation_number(number), kind="k", body=b"b", approval_id=about, expires_at_ns=expires
                )
            )
            await calls.settle()
        case "release", (number,):
            calls.remove(invocation_number(number))
            await calls.settle()
        case "renew", (until,):
            await calls.renew_lease(Moment(until))
        case "claim", (now, limit):
            outcome = sorted(await claim(calls, now=Moment(now), limit=limit), key=lambda call: call.invocation_id)
        case "take", (number, now, if_due):
            outcome = await calls.claim_one(invocation_number(number), now=Moment(now), if_due=if_due)
        case "answer", (number, now):
            outcome = await calls.answer(question(number), b"yes", now_ns=now)
        case _:
            await calls.release_lease()
    return outcome


async def seen(calls):
    opened, parked = (
        [await calls.get(invocation_number(number)) for number in (1, 2, 3)],
        await calls.awaiting_answer(limit=10),
    )
    given_answers = [(each.approval_id, each.body) for each in await calls.answers(after=0, limit=10)]
    return opened, list(parked), given_answers


async def scenario(open_calls, script):
    """Run a script, owner by owner, and return all that can be seen after each step; dead owners do nothing."""
    reported, dead = [], set()
    for deed, owner, *values in script:
        if owner in dead:
            continue
        try:
            reported.append(await do(open_calls[owner], deed, *values))
        except StoreError:
            reported.append("refused")
            if deed not in ("claim", "take"):
                dead.add(owner)
        reported.append(await seen(open_calls["a"]))
    return reported


IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 -- this test needs no disk


async def in_a_file(script):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        path = Path(folder) / "state.db"
        stores = {owner: SqliteStore.open(path, steps=STEPS, owner=owner) for owner in OWNERS}
        reported = await scenario({owner: store.open_calls for owner, store in stores.items()}, script)
        for store in stores.values():
            with suppress(StoreError):
                await store.close()
    return reported


@pytest.mark.slow
@given(st.lists(deeds, max_size=25))
def test_the_file_answers_as_the_reference_does(script):
    table, script = CallTable(), [*OPENING, *script]
    reference = asyncio.run(scenario({owner: ReferenceOpenCalls(owner, table) for owner in OWNERS}, script))
    assert asyncio.run(in_a_file(script)) == reference

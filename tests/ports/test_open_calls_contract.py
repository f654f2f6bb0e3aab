"""Open calls in memory and in a file fulfil the contract of `OpenCalls`; several processes share those in a file."""

from contextlib import asynccontextmanager, nullcontext, suppress

import pytest
from call_facts import invocation_number
from reference_open_calls import CallTable, ReferenceOpenCalls

from agenttool.errors import StoreError
from agenttool.journal.steps import STEPS
from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.stores import LeaseExpired, OpenCall, SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.records import ApprovalId
from agenttool.stores.memory import MemoryOpenCalls
from agenttool.stores.sqlite.store import SqliteStore

NOW, LATER, LATEST = 1000, 2000, 3000


@pytest.fixture
def in_file(tmp_path):
    """Opens the calls of one file for an owner of a given name."""

    @asynccontextmanager
    async def opened(owner):
        store = SqliteStore.open(tmp_path / "state.db", steps=STEPS, owner=owner)
        try:
            yield store.open_calls
        finally:
            with suppress(StoreError):  # an owner whose lease has expired cannot write its last changes
                await store.close()

    return opened


@pytest.fixture(params=["reference", "sqlite"])
def open_calls(request, in_file):
    """Opens the same calls for an owner of a given name; the reference is what property tests compare with."""
    table = CallTable()
    return in_file if request.param == "sqlite" else lambda owner: nullcontext(ReferenceOpenCalls(owner, table))


@pytest.fixture(params=["memory", "sqlite"])
def one_owner(request, in_file):
    """The calls of one process."""
    return in_file("memory") if request.param == "sqlite" else nullcontext(MemoryOpenCalls())


def _question(number):
    return ApprovalId(f"apr_{number:032x}-1")


async def _park(calls, *numbers, expires_at_ns=LATEST):
    for number in numbers:
        calls.save(
            SavedCheckpoint(
                invocation_number(number),
                kind="asked",
                body=b"%d" % number,
                approval_id=_question(number),
                expires_at_ns=expires_at_ns,
            )
        )
    await calls.settle()


def _ids(calls):
    return [call.invocation_id for call in calls]


async def test_a_checkpoint_is_stored_until_its_call_is_removed(one_owner):
    async with one_owner as calls:
        call = invocation_number(1)
        assert await calls.get(call) is None
        calls.save(SavedCheckpoint(call, kind="started", body=b"\x00secret"))
        await calls.settle()
        assert await calls.get(call) == OpenCall(invocation_id=call, kind="started", body=b"\x00secret", owner="memory")
        await _park(calls, 1)
        saved = await calls.get(call)
        assert saved is not None
        assert (saved.kind, saved.body, saved.approval_id, saved.expires_at_ns) == ("asked", b"1", _question(1), LATEST)
        calls.remove(call)
        await calls.settle()
        assert await calls.get(call) is None
        assert await calls.by_approval(_question(1)) is None


async def test_calls_that_wait_are_listed_by_age_page_by_page(one_owner):
    async with one_owner as calls:
        await _park(calls, 3, 1, 2)
        asked = await calls.awaiting_answer(limit=2)
        assert _ids(asked) == [invocation_number(1), invocation_number(2)]
        assert _ids(await calls.awaiting_answer(after=asked[-1].approval_id, limit=9)) == [invocation_number(3)]


async def test_a_call_without_an_owner_is_claimed_once(one_owner):
    async with one_owner as calls:
        now = Moment(NOW)
        if not isinstance(calls, MemoryOpenCalls):
            await calls.renew_lease(Moment(LATEST))
        waiting = SavedCheckpoint(
            invocation_number(1), kind="remote", body=b"", approval_id=_question(1), is_unowned=True
        )
        calls.save(waiting)
        await calls.settle()
        assert await calls.answer(_question(1), b"yes", now_ns=NOW) is AnswerStatus.ACCEPTED
        taken = await calls.claim_one(invocation_number(1), now=now)
        assert (taken.owner, taken.answer) == (None, b"yes")
        assert await calls.claim_one(invocation_number(1), now=now) is None


async def test_a_key_returns_its_first_call(one_owner):
    async with one_owner as calls:
        first, second = invocation_number(1), invocation_number(2)
        assert await calls.reserve("k", first, request=b"1", now=Moment(NOW)) is None
        if isinstance(calls, MemoryOpenCalls):
            assert (await calls.reserve("k", second, request=b"2", now=Moment(NOW))).invocation_id == first


async def test_a_question_is_answered_once_by_any_process(open_calls):
    async with open_calls("a") as here, open_calls("b") as there:
        await _park(here, 1, 2)
        assert await there.answer(_question(1), b"yes", now_ns=NOW) is AnswerStatus.ACCEPTED
        assert await here.answer(_question(1), b"no", now_ns=NOW) is AnswerStatus.ANSWERED
        assert await here.answer(_question(9), b"no", now_ns=NOW) is AnswerStatus.UNKNOWN
        assert [await here.was_answered(_question(number)) for number in (1, 2, 9)] == [True, False, False]
        assert await here.answer(_question(2), b"no", now_ns=LATEST) is AnswerStatus.EXPIRED
        (given,) = await here.answers(after=0, limit=10)
        assert (given.approval_id, given.body) == (_question(1), b"yes")
        assert await here.answers(after=given.number, limit=10) == []
        assert _ids(await here.awaiting_answer(limit=10)) == [invocation_number(2)]


async def test_the_body_of_an_answer_is_deleted_when_its_call_continues_or_ends(one_owner):
    async with one_owner as calls:
        await _park(calls, 1, 2)
        for number in (1, 2):
            await calls.answer(_question(number), b"an edited secret", now_ns=NOW)
        calls.remove(invocation_number(1))
        calls.save(SavedCheckpoint(invocation_number(2), kind="started", body=b""))
        await calls.settle()
        assert await calls.answers(after=0, limit=10) == []
        for number in (1, 2):
            assert await calls.answer(_question(number), b"again", now_ns=NOW) is AnswerStatus.ANSWERED


async def claim(calls, *, now, limit):
    """Claim the calls that are due."""
    due = await calls.due(now=now, limit=limit)
    claimed = [await calls.claim_one(each.invocation_id, now=now, if_due=True) for each in due]
    return [each for each in claimed if each is not None]


async def test_calls_of_an_owner_with_a_lease_cannot_be_claimed(open_calls):
    async with open_calls("a") as here, open_calls("b") as there:
        await here.renew_lease(Moment(LATER))
        await there.renew_lease(Moment(LATER))
        here.save(SavedCheckpoint(invocation_number(1), kind="started", body=b""))
        await here.settle()
        assert await claim(there, now=Moment(NOW), limit=10) == []
        assert await there.claim_one(invocation_number(1), now=Moment(NOW)) is None
        assert await claim(here, now=Moment(NOW), limit=10) == []


async def test_calls_of_an_expired_owner_are_claimed_once_and_it_writes_no_more(open_calls):
    async with open_calls("a") as dead, open_calls("b") as first, open_calls("c") as second:
        await dead.renew_lease(Moment(NOW))
        await first.renew_lease(Moment(LATEST))
        await second.renew_lease(Moment(LATEST))
        for number in (1, 2, 3):
            dead.save(SavedCheckpoint(invocation_number(number), kind="started", body=b"%d" % number))
        await dead.settle()
        assert _ids(await claim(first, now=Moment(LATER), limit=2)) == [invocation_number(1), invocation_number(2)]
        assert _ids(await claim(second, now=Moment(LATER), limit=2)) == [invocation_number(3)]
        assert await claim(second, now=Moment(LATER), limit=2) == []
        taken = await first.get(invocation_number(1))
        assert taken is not None
        assert (taken.owner, taken.body) == ("b", b"1")
        dead.save(SavedCheckpoint(invocation_number(4), kind="started", body=b""))
        assert await _is_refused(dead)


async def test_a_change_of_the_wall_clock_expires_no_lease(open_calls):
    async with open_calls("a") as here, open_calls("b") as there:
        await here.renew_lease(Moment(NOW, steady_ns=20, since="boot"))
        here.save(SavedCheckpoint(invocation_number(1), kind="started", body=b""))
        await here.settle()
        await there.renew_lease(Moment(LATEST, steady_ns=40, since="boot"))
        assert await claim(there, now=Moment(LATEST, steady_ns=19, since="boot"), limit=10) == []
        assert await there.claim_one(invocation_number(1), now=Moment(LATEST, steady_ns=19, since="boot")) is None
        assert await there.due(now=Moment(LATEST, steady_ns=19, since="boot"), limit=10) == []
        dead = await claim(there, now=Moment(0, steady_ns=20, since="boot"), limit=10)
        assert _ids(dead) == [invocation_number(1)], "nor does setting it back renew one"


async def test_leases_on_different_monotonic_clocks_are_compared_by_the_wall_clock(open_calls):
    async with open_calls("a") as here, open_calls("b") as there:
        await here.renew_lease(Moment(LATER, steady_ns=2**40, since="an earlier boot"))
        await there.renew_lease(Moment(LATEST, steady_ns=40, since="boot"))
        here.save(SavedCheckpoint(invocation_number(1), kind="started", body=b""))
        await here.settle()
        assert await claim(there, now=Moment(NOW, steady_ns=1, since="boot"), limit=10) == []
        assert _ids(await claim(there, now=Moment(LATER, steady_ns=1, since="boot"), limit=10)) == [
            invocation_number(1)
        ]


async def _is_refused(calls):
    try:
        await calls.renew_lease(Moment(LATEST))
    except StoreError:
        return True
    return False


async def test_only_calls_that_are_due_are_claimed(open_calls):
    async with open_calls("a") as dead, open_calls("b") as alive:
        await alive.renew_lease(Moment(LATEST))
        await _park(dead, 1, 2)
        await _park(dead, 3, expires_at_ns=LATER)
        dead.save(SavedCheckpoint(invocation_number(4), kind="started", body=b""))
        await dead.settle()
        await alive.answer(_question(2), b"yes", now_ns=NOW)
        assert _ids(await claim(alive, now=Moment(NOW), limit=10)) == [invocation_number(2), invocation_number(4)]
        assert _ids(await claim(alive, now=Moment(LATER), limit=10)) == [invocation_number(3)]
        found = await alive.claim_one(invocation_number(1), now=Moment(LATER))
        assert found is not None
        assert found.body == b"1"


async def test_calls_of_a_released_lease_can_be_claimed_at_once(open_calls):
    async with open_calls("a") as leaving, open_calls("b") as staying:
        await leaving.renew_lease(Moment(LATEST))
        await staying.renew_lease(Moment(LATEST))
        leaving.save(SavedCheckpoint(invocation_number(1), kind="started", body=b""))
        await leaving.settle()
        assert await claim(staying, now=Moment(NOW), limit=10) == []
        await leaving.release_lease()
        assert _ids(await claim(staying, now=Moment(NOW), limit=10)) == [invocation_number(1)]


async def test_an_owner_without_a_lease_cannot_claim(open_calls):
    async with open_calls("a") as calls:
        with pytest.raises(LeaseExpired):
            await calls.claim_one(invocation_number(1), now=Moment(NOW))


async def test_a_call_may_be_due_before_its_question_expires(open_calls):
    async with open_calls("a") as dead, open_calls("b") as alive:
        await alive.renew_lease(Moment(LATEST))
        dead.save(
            SavedCheckpoint(
                invocation_number(1),
                kind="sending",
                body=b"",
                approval_id=_question(1),
                expires_at_ns=LATEST,
                due_at_ns=0,
            )
        )
        await _park(dead, 2)
        assert _ids(await alive.due(now=Moment(NOW), limit=10)) == [invocation_number(1)]
        assert await alive.answer(_question(1), b"early", now_ns=NOW) is AnswerStatus.ACCEPTED


async def test_an_unowned_call_can_be_claimed_once_it_is_answered(open_calls):
    async with open_calls("a") as here, open_calls("b") as there:
        await here.renew_lease(Moment(LATEST))
        await there.renew_lease(Moment(LATEST))
        here.save(
            SavedCheckpoint(invocation_number(1), kind="remote", body=b"", approval_id=_question(1), is_unowned=True)
        )
        await here.settle()
        assert await there.due(now=Moment(NOW), limit=10) == []
        await there.answer(_question(1), b"yes", now_ns=NOW)
        assert _ids(await here.due(now=Moment(NOW), limit=10)) == [invocation_number(1)]
        taken = await there.claim_one(invocation_number(1), now=Moment(NOW))
        assert taken is not None
        assert (taken.owner, taken.answer) == (None, b"yes")
        assert await here.claim_one(invocation_number(1), now=Moment(NOW)) is None
        here.save(
            SavedCheckpoint(invocation_number(2), kind="started", body=b"")
        )  # a claim of an unowned call ends no lease
        await here.settle()


async def test_a_call_that_changed_since_it_was_due_is_not_claimed(open_calls):
    async with open_calls("a") as slow, open_calls("b") as there:
        await there.renew_lease(Moment(LATEST))
        await slow.renew_lease(Moment(NOW))
        slow.save(
            SavedCheckpoint(invocation_number(1), kind="sending", body=b"", approval_id=_question(1), due_at_ns=0)
        )
        await slow.settle()
        assert _ids(await there.due(now=Moment(LATER), limit=10)) == [invocation_number(1)]
        slow.save(
            SavedCheckpoint(invocation_number(1), kind="remote", body=b"", approval_id=_question(1), is_unowned=True)
        )
        await slow.settle()
        assert await there.claim_one(invocation_number(1), now=Moment(LATER), if_due=True) is None
        await there.answer(_question(1), b"yes", now_ns=LATER)
        taken = await there.claim_one(invocation_number(1), now=Moment(LATER), if_due=True)
        assert taken is not None
        assert taken.answer == b"yes"


async def test_waiting_calls_are_listed_by_the_prefix_of_what_they_wait_for(one_owner):
    async with one_owner as calls:
        await _park(calls, 1, 2)
        for number in (3, 4):
            late = ApprovalId(f"late_{number:032x}")
            calls.save(SavedCheckpoint(invocation_number(number), kind="remote", body=b"", approval_id=late))
        await calls.settle()
        assert _ids(await calls.awaiting_answer(limit=9)) == [invocation_number(1), invocation_number(2)]
        (first,) = await calls.awaiting_answer(limit=1, prefix="late_")
        assert _ids(await calls.awaiting_answer(after=first.approval_id, limit=9, prefix="late_")) == [
            invocation_number(4)
        ]


async def test_a_key_is_reserved_for_the_first_call_only(open_calls):
    async with open_calls("a") as one, open_calls("b") as two:
        until = Moment(now_ns=LATER, steady_ns=LATER, since="here")
        now = Moment(now_ns=NOW, steady_ns=NOW, since="here")
        for calls in (one, two):
            await calls.renew_lease(until)
        first, second = invocation_number(1), invocation_number(2)
        assert await one.reserve("k", first, request=b"1", now=now) is None
        assert await two.reserve("k", second, request=b"2", now=now) == (first, "a", b"1")
        assert await one.reserve("k", first, now=now) == (first, "a", b"1")
        assert await two.reserve("other", second, now=now) is None

"""The raw input of a call that waited is in no file of the store once the call has ended."""

import asyncio
import subprocess
from base64 import b64encode
from contextlib import closing

import pytest

from agenttool import Runtime, tool
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.connect import open_read_only
from agenttool.stores.sqlite.reader import SqliteReader

BOUND_S = 60
PIN, EDITED = "pin-4711-0815", "pin-2357-1113"


@tool(namespace="bank", destructive=True, sensitive=["pin"])
async def transfer(to: str, pin: str) -> str:
    """Transfer money. Not for gifts."""
    return f"to {to}"


def open_runtime(path):
    return Runtime.open(store=f"sqlite:{path}", tools=[transfer], approve="wait")


def forms_of(secret):
    """Return a secret as it is, and its inner part in base64 from each of three offsets."""
    encoded = [b64encode(b"x" * shift + secret.encode()).decode() for shift in range(3)]
    return [secret, *(each[4:-4] for each in encoded)]


@pytest.fixture
def found(tmp_path):
    """Name the files that contain a secret; a process of its own reads them, which leaves the locks of SQLite alone."""

    def found():
        forms = [form for pin in (PIN, EDITED) for form in forms_of(pin)]
        words = ["grep", "-rlaF", *(word for form in forms for word in ("-e", form)), tmp_path]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return sorted(line.rpartition("/")[2] for line in done.stdout.splitlines())

    return found


async def questions_of(rt, count=1):
    async with asyncio.timeout(BOUND_S):
        while len(questions := await rt.approvals.list()) < count:
            await asyncio.sleep(0.01)
    return [each.approval_id for each in questions]


async def transfers(rt, count=1):
    """Start calls that wait for an approver; return them with the ids of their questions."""
    surface = await rt.surface()
    calls = [rt.call("bank.transfer", {"to": str(to), "pin": PIN}, surface=surface) for to in range(count)]
    calling = [asyncio.ensure_future(each) for each in calls]
    return calling, await questions_of(rt, count)


ANSWERS = {
    "approved": ("allow", {}),
    "edited": ("allow", {"input": {"to": "ada", "pin": EDITED}}),
    "rejected": ("deny", {}),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_an_answered_call_leaves_no_raw_input(tmp_path, found, answer):
    async with open_runtime(tmp_path / "state.db") as rt:
        (calling,), (approval_id,) = await transfers(rt)
        assert found(), "a call that waits has its input in the files"
        word, options = ANSWERS[answer]
        await rt.approvals.decide(approval_id, word, **options)
        result = await calling
        assert (result.error is None) == (word == "allow")
        assert found() == []


async def test_an_expired_call_leaves_no_raw_input(tmp_path, found):
    async with open_runtime(tmp_path / "state.db") as rt:
        rt._core.questions.ttl_s = 0.05
        result = await rt.call("bank.transfer", {"to": "ada", "pin": PIN}, surface=await rt.surface())
        assert result.error.error_class == "permission_denied"
        assert found() == []


async def test_calls_of_a_dead_process_leave_no_raw_input_when_another_ends_them(tmp_path, found):
    async with open_runtime(tmp_path / "state.db") as rt:
        calling, _ = await transfers(rt, 40)
    await asyncio.gather(*calling)
    assert found() == ["state.db"]
    async with open_runtime(tmp_path / "state.db") as rt:
        for approval_id in await questions_of(rt, 40):
            await rt.approvals.decide(approval_id, "deny")
        async with asyncio.timeout(BOUND_S):
            while found():  # reading the store instead would delay the erasure
                await asyncio.sleep(0.05)


async def test_a_reader_only_delays_the_erasure(tmp_path, found):
    path = tmp_path / "state.db"
    async with open_runtime(path) as rt:
        (calling,), (approval_id,) = await transfers(rt)
        with SqliteReader.open(path, steps=STEPS) as reader, reader.at_one_moment():
            reader.head()
            await rt.approvals.decide(approval_id, "allow")
            assert (await calling).error is None
            assert found() == ["state.db-wal"]
        (calling,), (approval_id,) = await transfers(rt)
        await rt.approvals.decide(approval_id, "deny")
        await calling
        assert found() == []
    with closing(open_read_only(path)) as connection:
        assert connection.execute("SELECT count(*) FROM open_calls").fetchone() == (0,)

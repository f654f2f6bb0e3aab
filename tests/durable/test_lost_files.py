"""The files of the journal are deleted, replaced or truncated under a live process: no result is returned unstored."""

import asyncio
import os
import shutil
import sqlite3
from contextlib import asynccontextmanager, closing

import pytest

from agenttool import Runtime, ToolCall, tool
from agenttool.config import Setting
from agenttool.errors import StoreError
from agenttool.policy.rule_settings import read_rules
from agenttool.records import RuleSource, ToolResult

BOUND_S = 60


@tool(namespace="bank", destructive=True, approval_required=False)
async def pay(amount: int) -> int:
    """Pay. Not for gifts."""
    paid.append(amount)
    return amount


paid = []
RULES = read_rules(
    [Setting(members={"name": "pay", "behavior": "allow", "tool": "bank.*"}, source=RuleSource.PROJECT_SETTINGS)]
)


def replace(path):
    shutil.copy(path, path.with_name("other.db"))
    path.with_name("other.db").replace(path)


def delete_all(path):
    for each in path.parent.glob(f"{path.name}*"):
        if each.is_file():
            each.unlink()


def beside(path):
    return path.with_name(f"{path.name}-wal")


LOSSES = {
    "deleted": (lambda path: path.unlink(), "is gone"),
    "deleted with all beside it": (delete_all, "is gone"),
    "replaced by a copy": (replace, "was replaced by another file"),
    "truncated": (lambda path: os.truncate(path, 4096), "was truncated"),
    "emptied": (lambda path: os.truncate(path, 0), "was truncated"),
    "without its shared memory": (lambda path: path.with_name("state.db-shm").unlink(), "lost its shared-memory file"),
    "with an emptied shared memory": (lambda path: os.truncate(path.with_name("state.db-shm"), 0), "was truncated"),
    "without its write-ahead log": (lambda path: beside(path).unlink(), "lost its write-ahead log"),
    "with an emptied write-ahead log": (lambda path: os.truncate(beside(path), 0), "was truncated"),
    "with a header as its write-ahead log": (lambda path: os.truncate(beside(path), 32), "was truncated"),
    "with half a write-ahead log": (
        lambda path: os.truncate(beside(path), beside(path).stat().st_size // 2),
        "was truncated",
    ),
    "with a write-ahead log without its last byte": (
        lambda path: os.truncate(beside(path), beside(path).stat().st_size - 1),
        "was truncated",
    ),
}


@pytest.fixture
def path(tmp_path):
    paid.clear()
    return tmp_path / "state.db"


def open_runtime(path, *more):
    return Runtime.open(store=f"sqlite:{path}", tools=[pay, *more], rules=RULES, approve="wait")


@asynccontextmanager
async def losing(path, *more):
    """Open a runtime that raises as it closes, because its file is lost; that hides no other exception."""
    rt = await open_runtime(path, *more).__aenter__()
    try:
        yield rt
    finally:
        with pytest.raises(StoreError, match="nothing can be stored"):
            await rt.close()


async def fault_of(rt):
    async with asyncio.timeout(BOUND_S):
        while rt.inspection.store_fault is None:
            await asyncio.sleep(0.01)
    return rt.inspection.store_fault


async def lose_and_call(path, lose, said):
    """Lose a file after eleven calls."""
    async with losing(path) as rt:
        surface = await rt.surface()
        stored = [await rt.call("bank.pay", {"amount": amount}, surface=surface) for amount in range(11)]
        assert [result.error for result in stored] == [None] * 11
        lose(path)
        results = [await rt.call("bank.pay", {"amount": amount}, surface=surface) for amount in range(100, 104)]
        assert [result.error.error_code for result in results] == ["journal_unavailable"] * 4
        assert said in results[-1].error.message
        assert [amount for amount in paid if amount > 100] == [], "only the first call can have run"
        assert str(path) in await fault_of(rt)


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_lost_file_fails_every_call_and_shows_in_the_status(path, loss):
    await lose_and_call(path, *LOSSES[loss])


# SQLite maps the shared memory: the system kills a process that writes into the mapping while the file is emptied.
@pytest.mark.parametrize("loss", sorted(LOSSES.keys() - {"with an emptied shared memory"}))
async def test_a_file_that_is_lost_while_a_tool_runs_gives_every_call_a_result(path, loss):
    lose, _ = LOSSES[loss]

    @tool(namespace="bank")
    async def harm() -> str:
        """Damage the journal. Not for use."""
        lose(path)
        return "done"

    async with losing(path, harm) as rt, asyncio.timeout(BOUND_S):
        for amount in range(11):
            await rt.call("bank.pay", {"amount": amount}, surface=await rt.surface())
        calls = [ToolCall(name="bank.pay", arguments={"amount": 1}), ToolCall(name="bank.harm", arguments={})]
        results = await rt.batch([*calls, calls[0]], surface=await rt.surface())
        assert len(results) == 3
        assert results[1].error.error_code == "result_not_stored"
        assert results[1].error.retry.safe is not True


async def test_an_older_copy_that_is_restored_into_the_open_file_is_refused(path):
    def restore():
        with closing(sqlite3.connect(path.with_name("copy.db"))) as old, closing(sqlite3.connect(path)) as live:
            old.backup(live)

    async with losing(path) as rt:
        surface = await rt.surface()
        await rt.call("bank.pay", {"amount": 1}, surface=surface)
        with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(path.with_name("copy.db"))) as copy:
            live.backup(copy)
        await rt.call("bank.pay", {"amount": 2}, surface=surface, idempotency_key="k")
        restore()
        with pytest.raises(StoreError, match="was overwritten with another journal"):
            await rt.call("bank.pay", {"amount": 2}, surface=surface, idempotency_key="k")
        refused = await rt.call("bank.pay", {"amount": 3}, surface=surface)
        assert refused.error.error_code == "journal_unavailable"
        assert "was overwritten with another journal" in await fault_of(rt)
    assert paid == [1, 2]


async def test_a_deleted_write_ahead_log_is_written_into_the_file_when_the_process_ends(path):
    await lose_and_call(path, *LOSSES["without its write-ahead log"])
    async with open_runtime(path) as rt:
        assert list(rt._core.journal.log.verify()) == []
        results = [each async for each in rt.journal.export() if isinstance(each, ToolResult)]
        assert [each.error for each in results[:11]] == [None] * 11


@pytest.mark.parametrize("moved", ["state.db", "state.db-wal"])
async def test_a_file_that_is_moved_back_is_used_again_without_a_restart(path, moved):
    file = path.with_name(moved)
    async with open_runtime(path) as rt:
        surface = await rt.surface()
        for amount in range(1, 12):
            assert (await rt.call("bank.pay", {"amount": amount}, surface=surface)).error is None
        file.rename(file.with_name("away"))
        lost = [await rt.call("bank.pay", {"amount": 100}, surface=surface) for _ in range(3)]
        assert [result.is_error for result in lost] == [True] * 3
        await fault_of(rt)
        file.with_name("away").rename(file)
        again = await rt.call("bank.pay", {"amount": 200}, surface=surface)
        assert again.error is None
        assert await rt.journal.result(again.invocation_id) == again
        assert list(rt._core.journal.log.verify()) == []
    async with open_runtime(path) as rt:
        assert list(rt._core.journal.log.verify()) == []
        assert rt.calls.open_ids() == ()

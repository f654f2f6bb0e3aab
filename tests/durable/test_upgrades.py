"""A store that an older version wrote opens: its calls can be read, its rules apply, and its open questions continue.

`stores/version-9.db` was written by the first version whose stores are upgraded. It has two calls of `balance`, of
which one failed, a payment to ada that was approved with a rule for the next ones, a payment by that rule, and a
payment to eve that waits for its approval until the year 2126. In `version-9-answered.db` that payment was approved, and
no process has used the answer.
"""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agenttool import ConfigError, Runtime, tool
from agenttool.stores.sqlite import schema

STORES = Path(__file__).parent / "stores"
BOUND_S = 60


@tool(read_only=True)
async def balance(account: str) -> int:
    """Return the balance of an account."""
    return 42


@tool
async def pay(to: str, amount: int) -> str:
    """Pay a person."""
    return f"paid {amount} to {to}"


@pytest.fixture
def old_store(tmp_path):
    return Path(shutil.copy(STORES / "version-9.db", tmp_path / "calls.db"))


def open_runtime(file):
    return Runtime.open(tools=[balance, pay], store=file, config="/dev/null")


def version_of(file):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


async def test_a_question_in_a_store_of_an_older_version_can_be_answered_and_its_call_runs(old_store):
    async with open_runtime(old_store) as rt, asyncio.timeout(BOUND_S):
        (question,) = await rt.approvals.list()
        assert question.shown == {"to": "eve", "amount": 7}
        await rt.approvals.decide(question, "allow", by="ida")
        assert (await rt.calls.get(question.invocation_id).result()).text == "paid 7 to eve"
    assert version_of(old_store) == schema.VERSION


async def test_an_answer_that_an_older_version_stored_and_did_not_use_is_asked_for_again(tmp_path):
    answered = Path(shutil.copy(STORES / "version-9-answered.db", tmp_path / "calls.db"))
    async with open_runtime(answered) as rt, asyncio.timeout(BOUND_S):
        (question,) = await rt.approvals.list()
        await rt.approvals.decide(question, "allow", by="ida")
        assert (await rt.calls.get(question.invocation_id).result()).text == "paid 7 to eve"


async def test_the_rules_of_a_store_of_an_older_version_apply(old_store):
    async with open_runtime(old_store) as rt, asyncio.timeout(BOUND_S):
        assert (await rt.call("pay", {"to": "ada", "amount": 5})).text == "paid 5 to ada"


async def test_a_store_that_an_older_version_uses_is_left_alone(old_store):
    with closing(sqlite3.connect(old_store)) as connection, connection:
        connection.execute(
            "INSERT INTO processes VALUES ('4711@host#1', unixepoch() * 1000000000 + 3600000000000, '', 0)"
        )
    with pytest.raises(ConfigError, match="process 4711@host uses it; stop that process"):
        async with open_runtime(old_store):
            pass
    assert version_of(old_store) < schema.VERSION


async def test_a_large_store_is_upgraded_by_the_command_only(old_store, monkeypatch):
    monkeypatch.setattr(schema, "LARGE_BYTES", old_store.stat().st_size)
    with pytest.raises(ConfigError, match="agenttool store upgrade"):
        async with open_runtime(old_store):
            pass
    assert version_of(old_store) < schema.VERSION

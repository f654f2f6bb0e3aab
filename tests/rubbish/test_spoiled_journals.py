"""A damaged journal file: every command ends with a readable message, and `verify` reports the damage."""

import asyncio
import shutil
import sqlite3

import pytest
from typer.testing import CliRunner

from agenttool import Runtime, tool
from agenttool.cli.main import app

BOUND_S = 60
PLACE = "(SELECT last FROM facts ORDER BY last LIMIT 1 OFFSET 3)"


@tool(namespace="math", read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two numbers. Not for text."""
    return a + b


@tool(namespace="bank")
async def pay(to: str) -> str:
    """Pay a person. Not for gifts."""
    return f"paid {to}"


async def write_journal(path):
    async with Runtime.open(store=f"sqlite:{path}", tools=[add, pay], approve="wait") as rt:
        surface = await rt.surface()
        for number in range(5):
            await rt.call("math.add", {"a": number}, surface=surface)
        asking = [asyncio.ensure_future(rt.call("bank.pay", {"to": each}, surface=surface)) for each in ("ada", "bob")]
        async with asyncio.timeout(BOUND_S):
            while len(await rt.approvals.list()) < len(asking):  # noqa: ASYNC110 -- there is no event to wait for
                await asyncio.sleep(0.01)
    await asyncio.gather(*asking)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    path = tmp_path_factory.mktemp("untouched") / "agenttool.db"
    asyncio.run(write_journal(path))
    return path


SPOILED = {
    "its beginning is gone": "DELETE FROM anchors",
    "its beginning is a word": "UPDATE anchors SET hash = 'x'",
    "its head is a word": "UPDATE heads SET position = 'soon', hash = 'none'",
    "its head is gone": "DELETE FROM heads",
    "its head is far away": "UPDATE heads SET position = 99999",
    "a table is gone": "DROP TABLE facts_of_call",
    "an unread table is gone": "DROP TABLE processes",
    "an order was added": "CREATE TRIGGER theirs AFTER INSERT ON facts BEGIN DELETE FROM answers; END",
    "a row is a word": f"UPDATE facts SET lines = 'a word' WHERE last = {PLACE}",
    "a row is a number": f"UPDATE facts SET lines = 5 WHERE last = {PLACE}",
    "a row is empty": f"UPDATE facts SET lines = x'' WHERE last = {PLACE}",
    "a row is too deep": f"UPDATE facts SET lines = replace(hex(zeroblob(50000)), '0', '[') WHERE last = {PLACE}",
    "numbers are too great": "UPDATE facts SET lines = replace(CAST(lines AS TEXT), '1', '99999999999999999999')",
    "a member is none of ours": "UPDATE facts SET lines = replace(CAST(lines AS TEXT), 'permission_input', 'admission')",
    "a hash is empty": f"UPDATE facts SET hash = x'' WHERE last = {PLACE}",
    "a position is below nothing": f"UPDATE facts SET last = -5 WHERE last = {PLACE}",
    "a position is the last there can be": "UPDATE facts SET last = 9223372036854775807 WHERE last = (SELECT max(last)"
    " FROM facts)",
    "all is gone": "DELETE FROM facts",
    "questions are gone": "DELETE FROM open_calls",
    "the checkpoint of a call is a word": "UPDATE open_calls SET body = 'a word'",
    "the checkpoint of a call is that of another": "UPDATE open_calls SET body = (SELECT body FROM open_calls AS other"
    " WHERE other.invocation_id <> open_calls.invocation_id)",
    "the checkpoint of a call says that it runs": "UPDATE open_calls SET kind = 'running'",
    "a call is where nothing is": "INSERT INTO facts_of_call VALUES ('inv_x', 99999)",
    "what began is no list": "INSERT INTO started_calls VALUES ('somebody', 1, '{{')",
}
COMMANDS = (
    ("log",),
    ("log", "--limit", "3"),
    ("log", "--events"),
    ("log", "--events", "--limit", "3"),
    ("show",),
    ("show", "--json"),
    ("export",),
    ("policy", "replay", "RULES"),
)


@pytest.mark.parametrize("kind", SPOILED)
def test_a_damaged_journal_is_reported(kind, untouched, tmp_path):
    path = shutil.copy(untouched, tmp_path)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nname = "all"\nbehavior = "allow"\ntool = "*"\n')
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(SPOILED[kind])
    connection.close()

    def run(*words):
        words = [str(rules) if word == "RULES" else word for word in words]
        return CliRunner().invoke(app, [*words, "--store", str(path)], env={"COLUMNS": "80"})

    for words in (("verify",), ("verify", "--json")):
        shown = run(*words)
        assert shown.exit_code in (1, 2), (words, shown.output)
        assert shown.exception is None or isinstance(shown.exception, SystemExit), (words, shown.exception)
    for words in COMMANDS:
        shown = run(*words)
        assert shown.exit_code in (0, 2), (words, shown.output)
        assert shown.exception is None or isinstance(shown.exception, SystemExit), (words, shown.exception)

"""Words of models, tools and people that would command a terminal, in every command that shows the journal."""

import asyncio

import pytest
from typer.testing import CliRunner

from agenttool import Progress, Runtime, tool
from agenttool.cli.main import app

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202elive\u200b\r\nnext\x00 [bold red]loud[/] \u2028"
BOUND_S = 60


@tool(namespace="talk", read_only=True, concurrency_safe=True, open_world=False)
async def echo(text: str):
    """Say it again. Not for songs."""
    yield Progress(HOSTILE, percent=50)
    yield text


@tool(namespace="bank")
async def pay(to: str) -> str:
    """Pay a person. Not for gifts."""
    raise ValueError(HOSTILE)


async def write_hostile(path):
    async with Runtime.open(store=f"sqlite:{path}", tools=[echo, pay], approve="wait") as rt:
        surface = await rt.surface()
        words = {"surface": surface, "actor_ref": HOSTILE, "native_call_id": HOSTILE}
        ids = [(await rt.call("talk.echo", {"text": HOSTILE}, **words)).invocation_id]
        ids.append((await rt.call(f"no{HOSTILE}", {HOSTILE: HOSTILE}, surface=surface)).invocation_id)
        for word, edit in (("deny", None), ("allow", None), ("allow", {"to": HOSTILE + "2"})):
            calling = asyncio.ensure_future(rt.call("bank.pay", {"to": HOSTILE}, surface=surface))
            async with asyncio.timeout(BOUND_S):
                while not (questions := await rt.approvals.list()):  # noqa: ASYNC110 -- there is no event to wait for
                    await asyncio.sleep(0.01)
            await rt.approvals.decide(questions[0].approval_id, word, input=edit, by=HOSTILE, message=HOSTILE)
            ids.append((await calling).invocation_id)
        return ids


def test_no_word_in_the_journal_commands_the_terminal_of_who_reads_it(tmp_path):
    path = tmp_path / "agenttool.db"
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nname = "all"\nbehavior = "ask"\ntool = "*"\n')
    calls = asyncio.run(write_hostile(path))
    commands = [("show", call) for call in calls]
    commands += [("show", "inv_"), ("log",), ("log", "--events"), ("verify",), ("policy", "replay", str(rules))]
    for words in commands:
        shown = CliRunner().invoke(app, [*words, "--store", str(path)], env={"COLUMNS": "80"})
        acting = {each for each in shown.output if not each.isprintable() and each != "\n"}
        assert acting == set(), (words, acting)
        if words[0] == "show" and words[1] in calls[2:]:
            assert "[bold red]" in shown.output, "words are shown as they are, not read as markup"


@pytest.mark.parametrize("command", ["show", "log"])
def test_words_for_a_part_of_an_id_are_printed_as_text(tmp_path, command):
    path = tmp_path / "agenttool.db"
    asyncio.run(write_hostile(path))
    words = ("show", HOSTILE) if command == "show" else ("log", "--events", "--call", HOSTILE)
    shown = CliRunner().invoke(app, [*words, "--store", str(path)], env={"COLUMNS": "80"})
    assert shown.exit_code == 2
    assert "\x1b" not in shown.output

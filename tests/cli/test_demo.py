import asyncio
import io
import json
import os
import signal

from rich.console import Console
from typer.testing import CliRunner

from agenttool.cli import demo as command
from agenttool.cli.main import app
from agenttool.cli.story.teller import TerminalTeller

run = CliRunner().invoke


def test_every_claim_of_the_story_holds():
    outcome = run(app, ["demo", "--json"])
    told = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert outcome.exit_code == 0
    claims = [line for line in told if line["type"] == "claim"]
    assert len(claims) > 5
    assert all(claim["holds"] for claim in claims)


def test_the_story_is_told_to_people_too():
    outcome = run(app, ["demo"])
    assert outcome.exit_code == 0
    assert "✗" not in outcome.stdout
    assert outcome.stdout.count("·") >= len(command.CHAPTERS)


def test_a_title_is_as_wide_as_it_wants_and_an_indented_sentence_stays_indented():
    console = Console(width=30, record=True, file=io.StringIO())
    teller = TerminalTeller(console)
    teller.table("what came of all this", ("a", "b"), [("1", "2")])
    teller.say("  it needs a credential that is not there")
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[:2] == ["  what came of all this", "  a  b"]
    assert lines[3:] == ["  it needs a credential that", "  is not there"]


def test_a_claim_that_does_not_hold_fails_the_story(monkeypatch):
    monkeypatch.setattr(command, "CHAPTERS", (lambda teller: teller.claim("the moon is cheese", holds=False),))
    outcome = run(app, ["demo"])
    assert outcome.exit_code == 1
    assert "✗ the moon is cheese" in outcome.stdout


def test_ctrl_c_is_heard_in_the_middle_of_work_that_holds_the_loop(monkeypatch):
    reached = []

    async def work():
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("the end of the work")

    monkeypatch.setattr(command, "CHAPTERS", (lambda _: asyncio.run(work()),))
    outcome = run(app, ["demo"])
    assert (outcome.exit_code, reached) == (130, [])

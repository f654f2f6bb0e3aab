"""`agenttool policy`: rules, tried on what has happened."""

import os.path
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from agenttool.cli.journal.opening import StoreOption, opened
from agenttool.cli.journal.paper import draw
from agenttool.cli.loading import load_tools
from agenttool.cli.refusing import refuse
from agenttool.cli.replay.judge import Outcome, Replay
from agenttool.cli.replay.recorded import Judged, judged_call
from agenttool.cli.replay.tally import Tally
from agenttool.cli.replay.tools import Tools
from agenttool.codec import json_bytes
from agenttool.config import Config, read_config
from agenttool.errors import ConfigError
from agenttool.journal import steps
from agenttool.policy.paths import Workspace
from agenttool.policy.rule_settings import RuleSetting, read_rules
from agenttool.policy.rules import RuleBook
from agenttool.policy.votes import PermissionMode
from agenttool.records import JsonObject
from agenttool.stores.sqlite.reader import SqliteReader

app = typer.Typer(add_completion=False)


@app.callback()
def policy() -> None:
    """Try rules on what has happened; each command takes --json."""


@app.command()
def replay(
    rules: Annotated[Path, typer.Argument(metavar="RULES", help="A settings file with rules")],
    *,
    places: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="MODULE[:NAME]", help="Where the tools are, for what they say of themselves"),
    ] = None,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines: every call, then a summary")] = False,
) -> None:
    """Show what other rules would have decided about the recorded calls

    Each call is judged as it was then: its input, what hooks and classifiers said,
    the mode, and whether anybody could be asked, unless RULES says otherwise.
    What depends on something that is redacted, or that the journal does not hold,
    is unknown, and is counted so.
    """  # noqa: D415 -- as in the table of commands
    try:
        settings = read_config(rules)
        tools = Tools(load_tools(places or []))
        judging = Replay(settings, _book(settings), _workspace(settings), tools)
    except ConfigError as error:
        refuse(error)
    tally = Tally()
    with opened(store) as reader, reader.at_one_moment():
        for call in judged_calls(reader, tools):
            if call is None:
                tally.unjudged += 1
                continue
            outcome = judging.judge(call)
            tally.add(outcome)
            if as_json:
                _print(_told(outcome))
    if as_json:
        _print(tally.summary)
    else:
        draw(tally.drawing())


def judged_calls(reader: SqliteReader, tools: Tools) -> Iterator[Judged | None]:
    """Give every call that came before the rules, and nothing for each that did not; learn the names of tools."""
    after = 0
    while facts := reader.read(after):
        for position, fact in facts:
            if fact.step is steps.DECLARED and isinstance(fact.data, dict):
                tools.name(str(fact.data.get("tool_id")), str(fact.data.get("name")))
            call = fact.invocation_id
            if call is not None and (fact.sequence == 0 or reader.begins(call, position)):
                yield judged_call([each for _, each in reader.facts_of(call)])
        after = facts[-1][0]


def _book(settings: Config) -> RuleBook:
    """Read the rules of a file as a runtime would.

    Raises:
        ConfigError: something of them, or the mode, is wrong.
    """
    if settings.mode is not None and settings.mode not in list(PermissionMode):
        problem = f"no permission mode is called {settings.mode!r}; use one of {', '.join(PermissionMode)}"
        raise ConfigError(f"{settings.mode_place}: {problem}")
    written = (
        RuleSetting(members=each.members, source=each.source, file=each.file, line=each.line) for each in settings.rules
    )
    return RuleBook(read_rules(written))


def _workspace(settings: Config) -> Workspace:
    roots = tuple(os.path.realpath(root) for root in settings.workspace or (".",))
    return Workspace(roots=roots, home=str(Path.home()), resolve=os.path.realpath)


def _told(outcome: Outcome) -> JsonObject:
    answer = outcome.call.answer
    return {
        "type": "call",
        "invocation_id": outcome.call.invocation.invocation_id,
        "tool": outcome.tool,
        "was": outcome.was,
        "answer": None if answer is None else answer.behavior.value,
        "would": outcome.would,
        "differs": outcome.differs,
        "because": outcome.because,
        "rule_refs": [*outcome.rule_refs],
    }


def _print(value: JsonObject) -> None:
    sys.stdout.write(json_bytes(value).decode() + "\n")

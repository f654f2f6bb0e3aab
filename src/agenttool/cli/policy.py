"""`agenttool policy`: try rules on recorded calls, and report what would have been decided differently."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from agenttool import sync
from agenttool.adapters.python.source import Tool, load_tools
from agenttool.assemble.settings import make_policy
from agenttool.cli.call import Arguments, input_schema, read_arguments
from agenttool.cli.format import print_json, short_id, status_style
from agenttool.cli.options import (
    JsonOption,
    SettingsOption,
    StoreOption,
    StoreOptions,
    ToolsOption,
    UrlOption,
    open_journal,
    server_url,
)
from agenttool.cli.output import done, figures, fixed, heading, indented, plain_table, print_blocks, print_text
from agenttool.cli.policy_replay import UNKNOWN, PolicyReplay, ReplayOutcome, ReplayTools, decided_calls
from agenttool.cli.tools import require_tools
from agenttool.codec import parse_object
from agenttool.config import AUTO, load_config, read_config
from agenttool.config.program import program_name
from agenttool.errors import ConfigError
from agenttool.history.listed_call import parse_time
from agenttool.history.printable import one_line, printable
from agenttool.policy.rule_settings import read_rules, rule_text
from agenttool.policy.rules import Rule
from agenttool.ports.identity import GATEWAY_ROLE, AccessRole
from agenttool.records import Behavior, JsonObject
from agenttool.runtime import Runtime

if TYPE_CHECKING:
    from agenttool.server.messages import TryReply

app = typer.Typer(add_completion=False)

MAX_SHOWN = 50

_Key: TypeAlias = tuple[str, str, str, str]
_BEHAVIORS = (Behavior.ALLOW.value, Behavior.ASK.value, Behavior.DENY.value)


@app.callback()
def policy() -> None:
    """Show, revoke and try rules; each command takes --json."""


@app.command()
def rules(
    *,
    store: StoreOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the rules of the settings files, and those that approvers asked to remember, each with its place.

    The list is TOML: each rule can be pasted into a settings file.
    """
    options = StoreOptions(store, settings).for_use()
    file = options.file
    place = options.store if file is not None and file.exists() else "memory:"
    found = [(rule, rule.place) for rule in read_rules(load_config(settings or AUTO).rules)]
    with sync.open(config=settings or AUTO, store=place, approve="wait") as rt:
        found += [(rule, f"remembered in {file}") for rule in rt.approvals.rules()]
    if as_json:
        for rule, place in found:
            print_json({"rule_ref": rule.ref, "behavior": rule.behavior.value, "place": place, "rule": rule.conditions})
        return
    if not found:
        print_text(Console(), "no rules")
    for rule, place in found:
        print_text(Console(), f"# {one_line(', '.join(dict.fromkeys((rule.ref.partition(':')[2], place))))}", "dim")
        print_text(Console(), printable(_table_of(rule), keep="\n"))


def _table_of(rule: Rule) -> str:
    """Return a rule as settings take it; one that TOML cannot express is a comment."""
    try:
        return rule_text(rule)
    except ValueError as error:
        return f"# {rule.behavior.value} {json.dumps(rule.conditions)} ({error})\n"


@app.command()
def forget(
    approval_id: Annotated[str, typer.Argument(metavar="APR_ID", help="The approval that added the rule")],
    *,
    store: StoreOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a rule that an approver asked to remember, in every process on the store."""
    options = StoreOptions(store, settings).for_use()
    options.existing_file()
    with sync.open(config=settings or AUTO, store=options.store, approve="wait") as rt:
        is_revoked = rt.approvals.forget(approval_id.removeprefix("session:"))
    if not is_revoked:
        command = f"{program_name()} policy rules{options.arguments}"
        raise ConfigError(f"no rule is remembered for {approval_id!r}; list them: {command}")
    if as_json:
        print_json({"forgotten": approval_id})
    else:
        done(f"revoked the rule of {approval_id}")


@app.command("try")
def try_call(  # noqa: PLR0913 -- the parts of a call
    name: Annotated[str, typer.Argument(metavar="TOOL", help="Its name, with or without its namespace")],
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its arguments")] = None,
    *,
    args: Annotated[str | None, typer.Option(metavar="JSON", help="Its arguments as one JSON object")] = None,
    actor: Annotated[str | None, typer.Option(metavar="NAME", help="Who would make the call")] = None,
    roles: Annotated[
        list[AccessRole] | None, typer.Option("--role", help="A role of the actor's key; may be repeated")
    ] = None,
    places: ToolsOption = None,
    settings: SettingsOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the rules would decide about a call, which is not made.

    Without --actor the caller is not known, and without --role neither are the roles of its
    key: then a deny or an ask about callers or such roles applies, and an allow does not.
    """
    if roles and actor is None:
        raise ConfigError("--role is a role of an actor's key; name the actor with --actor")
    given = read_arguments(words or [], args, None)
    server = server_url(url, **{"from": places}, settings=settings)
    if server is None:
        outcome = asyncio.run(_try_here(name, given, actor, roles, load_tools(places or []), settings))
    else:
        from agenttool.cli.remote import open_server, server_schema  # noqa: PLC0415 -- it loads the HTTP client

        with open_server(server) as gateway:
            values = given.for_schema(server_schema(gateway, name))
            outcome = gateway.try_policy(name, values, actor=actor, roles=roles)
    if as_json:
        print_json(parse_object(msgspec.json.encode(outcome)))
        return
    console = Console()
    console.print(Text(outcome.behavior, style=status_style(outcome.behavior)), Text(printable(outcome.reason)))
    for title, refs in (("decided by", outcome.rule_refs), ("overridden", outcome.overridden_rule_refs)):
        if refs:
            print_text(console, f"{title}: {printable(', '.join(refs))}")
    for each in outcome.errors:
        print_text(console, printable(f"{each.pointer or 'the arguments'}: {each.message}"), "yellow")


async def _try_here(
    name: str,
    arguments: Arguments,
    actor: str | None,
    roles: list[AccessRole] | None,
    given: list[Tool],
    settings: Path | None,
) -> "TryReply":
    from agenttool.server.govern_routes import trial_reply  # noqa: PLC0415 -- it is slow to load

    async with Runtime.open(store="memory:", approve="wait", config=settings or AUTO, tools=given) as rt:
        require_tools(rt, given, "agenttool policy try TOOL --from MODULE")
        entry = rt.inspection.tool(name)
        if entry is None:
            raise ConfigError(f"no tool is named {name!r}; list them: agenttool tools")
        granted = None if roles is None else tuple(GATEWAY_ROLE + each for each in roles)
        values = arguments.for_schema(input_schema(rt, name))
        return trial_reply(await rt.inspection.decide(entry, values, actor, granted))


@app.command()
def replay(
    rules_file: Annotated[Path, typer.Argument(metavar="RULES", help="A settings file with rules")],
    *,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Calls that began at or after this time: 2h, 30d, or a date")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Calls that began before this time")] = None,
    places: ToolsOption = None,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines: every call, then a summary")] = False,
) -> None:
    """Show what other rules would decide about the recorded calls.

    Each call is decided with what was recorded: its input, the votes of hooks and
    classifiers, the mode, and whether a user could be asked, unless RULES sets them.
    If a decision depends on a redacted value, or on a fact that the journal does not
    hold, it is counted as unknown.
    """
    since_ns, until_ns = parse_time("--since", since), parse_time("--until", until)
    settings = read_config(rules_file)
    tools = ReplayTools(load_tools(places or []))
    replay = PolicyReplay(settings, make_policy(settings, (), None, approve=None, is_durable=True), tools)
    totals = ReplayTotals()
    with open_journal(store) as reader, reader.at_one_moment():
        for call in decided_calls(reader, tools, since_ns=since_ns, until_ns=until_ns):
            if call is None:
                totals.undecided += 1
                continue
            outcome = replay.decide(call)
            totals.add(outcome)
            if as_json:
                print_json(_outcome_json(outcome))
    if as_json:
        print_json(totals.summary)
    else:
        print_blocks(totals.blocks())


def _outcome_json(outcome: ReplayOutcome) -> JsonObject:
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


@dataclass(slots=True)
class ReplayTotals:
    """Counts outcomes; for calls that differ in the same way, the newest outcome is stored."""

    undecided: int = 0
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _groups: Counter[_Key] = field(default_factory=Counter["_Key"])
    _newest: dict[_Key, ReplayOutcome] = field(default_factory=dict["_Key", ReplayOutcome])

    def add(self, outcome: ReplayOutcome) -> None:
        """Count one call."""
        self._counts[outcome.was, outcome.would] += 1
        if outcome.differs or outcome.would == UNKNOWN:
            key = (outcome.tool, outcome.was, outcome.would, outcome.short_reason)
            self._groups[key] += 1
            self._newest[key] = outcome

    @property
    def summary(self) -> JsonObject:
        """The totals as a JSON object."""
        table: JsonObject = {
            was: {word: self._counts[was, word] for word in (*_BEHAVIORS, UNKNOWN)} for was in _BEHAVIORS
        }
        return {
            "type": "summary",
            "calls": self._counts.total(),
            "differ": self._differing(),
            "unknown": self._unknown(),
            "not_judged": self.undecided,
            "was_would": table,
        }

    def _differing(self) -> int:
        return sum(count for (was, would), count in self._counts.items() if would not in (was, UNKNOWN))

    def _unknown(self) -> int:
        return sum(count for (_, would), count in self._counts.items() if would == UNKNOWN)

    def blocks(self) -> Iterator[RenderableType]:
        """Yield the differences, then what is unknown, then the totals."""
        count, known = self._differing(), self._counts.total() - self._unknown()
        yield Text(f"{count:,} of {known:,} decisions would differ", style="yellow" if count else "green")
        for title, differs in (("Different", True), ("Unknown", False)):
            counted = ((count, self._newest[key]) for key, count in self._groups.most_common())
            groups = [(count, newest) for count, newest in counted if newest.differs is differs]
            if groups:
                yield heading(title)
                yield indented(_groups_table(groups))
            if (more := len(groups) - MAX_SHOWN) > 0:
                yield Text(f"  … and {more:,} more groups; --json prints every call", style="dim")
        yield heading("Totals")
        yield indented(self._totals_table())

    def _totals_table(self) -> Table:
        table = plain_table("was", "would be", *map(figures, (*_BEHAVIORS, UNKNOWN)))
        for was in _BEHAVIORS:
            cells = [
                Text(f"{self._counts[was, word]:,}", style=_cell_style(was, word)) for word in (*_BEHAVIORS, UNKNOWN)
            ]
            table.add_row(Text(was, style=status_style(was)), "", *cells)
        if self.undecided:
            table.add_row(Text("no decision", style="dim"), Text(f"{self.undecided:,}", style="dim"))
        return table


def _cell_style(was: str, would: str) -> str:
    return "dim" if was == would else "yellow" if would == UNKNOWN else "bold"


def _groups_table(groups: list[tuple[int, ReplayOutcome]]) -> Table:
    columns = (figures("calls"), "tool", fixed("was"), fixed("would be"), "because", fixed("newest"))
    table = plain_table(*columns)
    for count, outcome in groups[:MAX_SHOWN]:
        table.add_row(
            f"{count:,}",
            Text(printable(outcome.tool), style="cyan"),
            _recorded_decision(outcome),
            Text(outcome.would, style=status_style(outcome.would) if outcome.differs else "yellow"),
            Text(printable(outcome.short_reason)),
            short_id(outcome.call.invocation.invocation_id),
        )
    return table


def _recorded_decision(outcome: ReplayOutcome) -> Text:
    decision, answer = Text(outcome.was, style=status_style(outcome.was)), outcome.call.answer
    if answer is None:
        return decision
    return decision.append(f", {answer.behavior.value}", style=status_style(answer.behavior))

"""`agenttool policy`: try rules on recorded calls, and report what would have been decided differently."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

import typer
from rich.console import RenderableType
from rich.text import Text

from agenttool import sync
from agenttool.assemble.settings import make_policy
from agenttool.cli.call import Arguments, input_schema, read_arguments
from agenttool.cli.format import document_of, print_json, short_id, status_style
from agenttool.cli.options import StoreOptions, StoreToolOptions, ToolUrlOptions, argument, option, required
from agenttool.cli.output import (
    done,
    figures,
    fixed,
    heading,
    indented,
    is_json,
    plain_table,
    print_blocks,
    print_text,
    warn,
)
from agenttool.cli.policy_replay import UNKNOWN, PolicyReplay, ReplayOutcome, ReplayTools, decided_calls
from agenttool.cli.remote import open_server
from agenttool.cli.tools import require_tools, sources_for
from agenttool.client import json_value
from agenttool.config import load_config, read_config
from agenttool.config.program import program_name
from agenttool.errors import ConfigError
from agenttool.history.listed_call import parse_time
from agenttool.history.printable import one_line, printable
from agenttool.policy.rule_settings import read_rules, rule_text
from agenttool.policy.rules import Rule
from agenttool.ports.identity import DEFAULT_TENANT, GATEWAY_ROLE, AccessRole
from agenttool.records import Behavior, JsonObject
from agenttool.runtime import Runtime
from agenttool.stores.location import store_files

if TYPE_CHECKING:
    from agenttool.adapters.python.source import Tool
    from agenttool.server.messages import TryReply

app = typer.Typer(add_completion=False)

MAX_SHOWN = 50

_Group: TypeAlias = tuple[str, str, str, str]
_BEHAVIORS = (Behavior.ALLOW.value, Behavior.ASK.value, Behavior.DENY.value)
_WORDS = (*_BEHAVIORS, UNKNOWN)


@app.callback()
def policy() -> None:
    """Show, revoke and try rules; each command takes --json."""


@app.command()
def rules(
    *,
    options: StoreOptions,
) -> None:
    """List the rules of the settings files, and those that approvers asked to remember, each with its place.

    The list is TOML: each rule can be pasted into a settings file.
    """
    options = options.for_use()
    file = options.file
    place = options.store if file is not None and file.exists() else "memory:"
    found = [(rule, rule.place) for rule in read_rules(load_config(options.config).rules)]
    with sync.open(config=options.config, store=place, approve="wait") as rt:
        found += [(rule, f"remembered in {file}") for rule in rt.approvals.rules()]
    for rule, place in found:
        print_json({"rule_ref": rule.ref, "behavior": rule.behavior.value, "place": place, "rule": rule.conditions})
    if not found:
        print_text("no rules")
    for rule, place in found:
        print_text(f"# {one_line(', '.join(dict.fromkeys((rule.ref.partition(':')[2], place))))}", "dim")
        print_text(_table_of(rule))


def _table_of(rule: Rule) -> str:
    """Return a rule as settings take it; one that TOML cannot express is a comment."""
    try:
        return rule_text(rule)
    except ValueError as error:
        return f"# {rule.behavior.value} {json.dumps(rule.conditions)} ({error})\n"


@app.command()
def forget(
    approval_id: Annotated[str, required("APR_ID", "The approval that added the rule")],
    *,
    options: StoreOptions,
) -> None:
    """Revoke a rule that an approver asked to remember, in every process on the store."""
    options = options.for_use()
    options.existing_file()
    with sync.open(config=options.config, store=options.store, approve="wait") as rt:
        is_revoked = rt.approvals.forget(approval_id.removeprefix("session:"))
    if not is_revoked:
        command = f"{program_name()} policy rules{options.arguments}"
        raise ConfigError(f"no rule is remembered for {approval_id!r}; list them: {command}")
    print_json({"forgotten": approval_id})
    done(f"revoked the rule of {approval_id}")


@app.command("try")
def try_call(
    name: Annotated[str, required("TOOL", "Its name, with or without its namespace")],
    words: list[str] | None = argument("KEY=VALUE", "Its arguments"),
    *,
    args: str | None = option("--args JSON", "Its arguments as one JSON object"),
    actor: str | None = option("--actor NAME", "Who would make the call"),
    roles: list[AccessRole] | None = option("--role", "A role of the actor's key; may be repeated"),
    options: ToolUrlOptions,
) -> None:
    """Show what the rules would decide about a call, which is not made.

    Without --actor the caller is not known, and without --role neither are the roles of its
    key: then a deny or an ask about callers or such roles applies, and an allow does not.
    """
    if roles and actor is None:
        raise ConfigError("--role is a role of an actor's key; name the actor with --actor")
    given = read_arguments(words or [], args, None)
    options = options.resolved()
    if options.url is None:
        outcome = asyncio.run(_try_here(name, given, actor, roles, options, options.load_tools()))
    else:
        with open_server(options.url) as gateway:
            values = given.for_schema(cast("JsonObject", json_value(gateway.tool(name).input_schema)))
            outcome = gateway.try_policy(name, values, actor=actor, roles=roles)
    print_json(document_of(outcome))
    print_blocks([Text.assemble((outcome.behavior, status_style(outcome.behavior)), f" {printable(outcome.reason)}")])
    for title, refs in (("decided by", outcome.rule_refs), ("overridden", outcome.overridden_rule_refs)):
        if refs:
            print_text(f"{title}: {', '.join(refs)}")
    for each in outcome.errors:
        print_text(f"{each.pointer or 'the arguments'}: {each.message}", "yellow")


async def _try_here(
    name: str,
    arguments: Arguments,
    actor: str | None,
    roles: list[AccessRole] | None,
    options: ToolUrlOptions,
    given: "list[Tool]",
) -> "TryReply":
    from agenttool.server.govern_routes import trial_reply  # noqa: PLC0415 -- it is slow to load

    config, unconnected = sources_for(load_config(options.config), name, given, is_run=False)
    unused = {each.name for each in unconnected}
    async with Runtime.open(store="memory:", approve="wait", config=config, tools=given, sources=unconnected) as rt:
        require_tools(rt, given, "agenttool policy try TOOL --from MODULE")
        entry = rt.inspection.tool(name)
        absent = [each.source for each in await rt.sources.status() if not each.is_ready and each.source not in unused]
        left_out = f"; not considered, because they did not answer: {', '.join(absent)}" if absent else ""
        if entry is None:
            raise ConfigError(f"no tool is named {name!r}; list them: agenttool tools{left_out}")
        if left_out and "." not in name:
            warn(f"the decision is about {entry.qualified_name!r}{left_out}")
        granted = None if roles is None else tuple(GATEWAY_ROLE + each for each in roles)
        values = arguments.for_schema(input_schema(rt, name))
        return trial_reply(await rt.inspection.decide(entry, values, actor, granted))


@app.command()
def replay(
    rules_file: Annotated[Path, required("RULES", "A settings file with rules")],
    *,
    since: str | None = option("--since TIME", "Calls that began at or after this time: 2h, 30d, or a date"),
    until: str | None = option("--until TIME", "Calls that began before this time"),
    options: StoreToolOptions,
) -> None:
    """Show what other rules would decide about the recorded calls.

    Each call is decided with what was recorded: its input, the votes of hooks and
    classifiers, the mode, and whether a user could be asked, unless RULES sets them.
    If a decision depends on a redacted value, or on a fact that the journal does not
    hold, it is counted as unknown.
    """
    since_ns, until_ns = parse_time("--since", since), parse_time("--until", until)
    settings = read_config(rules_file)
    tools = ReplayTools(options.load_tools())
    totals = ReplayTotals()
    with options.open_journal() as reader, reader.at_one_moment():
        files = store_files(str(reader.path), None, DEFAULT_TENANT)
        replay = PolicyReplay(settings, make_policy(settings, (), None, approve=None, files=files), tools)
        for call in decided_calls(reader, tools, since_ns=since_ns, until_ns=until_ns):
            if call is None:
                totals.undecided += 1
                continue
            outcome = replay.decide(call)
            totals.add(outcome)
            if is_json():
                print_json(_outcome_json(outcome))
    print_json(totals.summary)
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


class ReplayTotals:
    """Counts outcomes; for calls that differ in the same way, the newest outcome is stored."""

    def __init__(self) -> None:
        """Begin with no call."""
        self.undecided = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._groups: Counter[_Group] = Counter()
        self._newest: dict[_Group, ReplayOutcome] = {}

    def add(self, outcome: ReplayOutcome) -> None:
        """Count one call."""
        self._counts[outcome.was, outcome.would] += 1
        if outcome.would != outcome.was:
            group = (outcome.tool, outcome.was, outcome.would, outcome.short_reason)
            self._groups[group] += 1
            self._newest[group] = outcome

    @property
    def summary(self) -> JsonObject:
        """The totals as a JSON object."""
        unknown = sum(self._counts[was, UNKNOWN] for was in _BEHAVIORS)
        table: JsonObject = {was: {word: self._counts[was, word] for word in _WORDS} for was in _BEHAVIORS}
        return {
            "type": "summary",
            "calls": self._counts.total(),
            "differ": self._groups.total() - unknown,
            "unknown": unknown,
            "not_judged": self.undecided,
            "was_would": table,
        }

    def blocks(self) -> Iterator[RenderableType]:
        """Yield the differences, then what is unknown, then the totals."""
        unknown = sum(self._counts[was, UNKNOWN] for was in _BEHAVIORS)
        count = self._groups.total() - unknown
        text = f"{count:,} of {self._counts.total() - unknown:,} decisions would differ"
        yield Text(text, style="yellow" if count else "green")
        for title, differs in (("Different", True), ("Unknown", False)):
            counted = ((count, self._newest[group]) for group, count in self._groups.most_common())
            rows = [_group_cells(count, newest) for count, newest in counted if newest.differs is differs]
            columns = (figures("calls"), fixed("tool", "cyan"), "was", "would be", "because", fixed("newest"))
            if rows:
                yield heading(title)
                yield indented(plain_table(*columns, rows=rows[:MAX_SHOWN]))
            if (more := len(rows) - MAX_SHOWN) > 0:
                yield Text(f"  … and {more:,} more groups; --json prints every call", style="dim")
        yield heading("Totals")
        yield indented(plain_table("was", "would be", *map(figures, _WORDS), rows=self._total_rows()))

    def _total_rows(self) -> Iterator[tuple[Text, ...]]:
        for was in _BEHAVIORS:
            styles = {was: "dim", UNKNOWN: "yellow"}
            cells = (Text(f"{self._counts[was, word]:,}", styles.get(word, "bold")) for word in _WORDS)
            yield Text(was, status_style(was)), Text(), *cells
        if self.undecided:
            yield Text("no decision", "dim"), Text(f"{self.undecided:,}", "dim")


def _group_cells(count: int, outcome: ReplayOutcome) -> tuple[str | Text, ...]:
    answer, was = outcome.call.answer, Text(outcome.was, style=status_style(outcome.was))
    if answer is not None:
        was.append(f", {answer.behavior.value}", style=status_style(answer.behavior))
    would = Text(outcome.would, style=status_style(outcome.would) if outcome.differs else "yellow")
    newest = short_id(outcome.call.invocation.invocation_id)
    return f"{count:,}", outcome.tool, was, would, outcome.short_reason, newest

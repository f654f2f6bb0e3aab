"""`agenttool tools` and `agenttool search`: the tools of a module, as a model would see and find them."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

import typer
from rich.bar import Bar
from rich.console import Console, RenderableType
from rich.text import Text

from agenttool import sync
from agenttool.adapters.python.source import Tool, declared, load_tools
from agenttool.catalog.absence_text import ToolVisibility, visibility_on
from agenttool.catalog.unresolved import similar_names
from agenttool.cli.format import document_of, print_json, print_rows
from agenttool.cli.options import ToolUrlOptions, option, required
from agenttool.cli.output import fixed, hint, indented, is_json, plain_table, print_blocks, print_text
from agenttool.cli.remote import open_server
from agenttool.client import Client
from agenttool.codec import to_json
from agenttool.config import SETTINGS_FILE, Config
from agenttool.config.program import program_name
from agenttool.errors import ConfigError
from agenttool.history.printable import printable
from agenttool.ports.source import SourceHost, SourceStatus
from agenttool.ports.surfacing import ModelCapabilities, ProviderState, Role
from agenttool.records import (
    AbsenceReason,
    Json,
    JsonObject,
    NextAction,
    Record,
    SearchMatch,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolSearchResult,
    ToolSurface,
    acted_on,
)
from agenttool.runtime import Runtime
from agenttool.server.messages import ToolSummary

NOTHING_FOUND = 1
BAR_WIDTH = 10
"""The width of the bar of a perfect score."""

_MAX_REASONS = 3
_FLAGS = ("strict_schemas", "parallel_calls", "deferred_refs")
_MEDIA = "media:"

_VIEWERS: list[str] | None = option("--as VIEWER", "Look as role=PATTERN,…, model=CAPABILITY,… or sub-agent")


def tools(
    *,
    why: str | None = option("--why NAME", "Explain why a model cannot see this tool"),
    viewers: list[str] | None = _VIEWERS,
    options: ToolUrlOptions,
) -> None:
    """List the tools of a module, and the facts assumed about them."""
    options = options.resolved({"as": viewers})
    if options.url is not None:
        with open_server(options.url) as gateway:
            _print_tools_of(gateway, why)
        return
    given = options.load_tools()
    with sync.open(store="memory:", approve="wait", config=options.config, tools=given) as rt:
        require_tools(rt, given, f"{program_name()} tools --from MODULE")
        records, surface = list(rt.journal.export()), _surface_for(rt, viewers)[1]
    if why is not None:
        for explanation in _explain(records, surface, why):
            print_json(explanation)
            print_text(str(explanation["why"]))
    elif is_json():
        for record in records:
            print_json(to_json(record))
    else:
        _print_tools(records, surface)


def _print_tools_of(gateway: Client, why: str | None) -> None:
    """Print the tools of a server, or why a model does not see one."""
    found: list[ToolSummary] = [*gateway.iter_tools()] if why is None else [gateway.tool(why)]
    if why is not None and not is_json():
        print_text(f"{found[0].name} is {found[0].state}: {found[0].why}")
        return
    rows = ((each.name, each.state, each.description.split("\n")[0]) for each in found)
    table = plain_table("tool", "state", "description", rows=rows)
    print_rows([*map(document_of, found)], [table], empty="the server has no tools")


def require_tools(rt: Runtime | sync.SyncRuntime, given: list[Tool], command: str) -> None:
    """Check that a module or a source of the settings provides tools.

    Raises:
        ConfigError: there are none; it shows the command that names a module.
    """
    if not given and not rt.sources.names:
        raise ConfigError(
            f"there are no tools: --from is missing; type `{command}`, or add [sources.NAME] to {SETTINGS_FILE}"
        )


def complete_tool_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the tools of the modules given so far whose names begin with a text, for completion in a shell."""
    given: list[Tool] = []
    with suppress(Exception):  # a shell shows nothing but completions
        given = load_tools(ctx.params.get("from_") or [])
    return [name for each in given for name in tool_names(each) if name.startswith(incomplete)]


def tool_names(tool: Tool) -> tuple[str, str]:
    """Return the names of a tool, without and with its namespace."""
    declaration = declared(tool).declaration
    return declaration.name, _qualified_name(declaration)


@dataclass(frozen=True, slots=True)
class UnconnectedSource:
    """A source of the settings that is not connected; rules may name its tools."""

    name: str

    async def connect(self, host: SourceHost) -> None:
        """Do nothing."""

    def health(self) -> tuple[SourceStatus, ...]:
        """Return that it cannot be used."""
        return (SourceStatus(source=self.name, state=ProviderState.UNAVAILABLE, tries=0),)

    async def close(self) -> None:
        """Do nothing."""


def sources_for(
    config: Config, name: str, given: Iterable[Tool], *, is_run: bool
) -> tuple[Config, list[UnconnectedSource]]:
    """Return settings with the sources that a tool needs, and stand-ins for the others, which may be slow or hang.

    Sources other than functions have only the namespace of their own name. A function may call any tool, so it needs
    all sources if it is run.
    """
    functions = {each for each, table in config.sources.items() if table.members.get("kind") == "python"}
    named = {name.removeprefix("tool_").partition(".")[0]} & config.sources.keys()
    if any(name in tool_names(each) for each in given):
        wanted = {*config.sources} if is_run else set[str]()
    else:
        wanted = (named - functions if is_run else named) or {*config.sources}
    sources = {each: table for each, table in config.sources.items() if each in functions | wanted}
    return replace(config, sources=sources), [UnconnectedSource(each) for each in config.sources if each not in sources]


def _print_tools(records: list[Record], surface: ToolSurface) -> None:
    blocks: list[RenderableType] = []
    interfaces = {each.tool_id: each for each in records if isinstance(each, ToolInterface)}
    blocked = {each.tool_id: each for each in surface.blocked_tools or ()}
    for declaration in _declarations(records):
        head = Text.assemble((_qualified_name(declaration), "cyan"), "  ", *_argument_names(declaration))
        facts = _facts(interfaces[declaration.tool_id])
        blocks += [head, indented(declaration.description.split("\n")[0]), indented(facts)]
        if (absent := blocked.get(declaration.tool_id)) is not None:
            reason = "; ".join(filter(None, (absent.message, absent.would_change)))
            blocks.append(indented(Text(printable(f"unavailable: {reason}"), "yellow")))
    print_blocks(blocks)
    print_text(_surface_summary(surface), "dim")


def _declarations(records: list[Record]) -> list[ToolDeclaration]:
    return [each for each in records if isinstance(each, ToolDeclaration)]


def _explain(records: list[Record], surface: ToolSurface, name: str) -> list[JsonObject]:
    """Return the visibility of the tools with a name on the surface that a model would get.

    Raises:
        ConfigError: there is no such tool.
    """
    declared = _declarations(records)
    visibility = visibility_on(surface)
    found = [_explanation(each, visibility) for each in declared if name in _names(each)]
    if not found:
        spellings = ((spelling, _qualified_name(each)) for each in declared for spelling in _names(each))
        similar = " or ".join(map(repr, similar_names(name, spellings)))
        advice = f"did you mean {similar}?" if similar else f"list them with `{program_name()} tools`, or search for it"
        raise ConfigError(f"no tool is named {name!r} here; {advice}")
    return found


def _explanation(declaration: ToolDeclaration, visibility: Callable[[ToolId, str], ToolVisibility]) -> JsonObject:
    name = _qualified_name(declaration)
    found = visibility(declaration.tool_id, name)
    change: JsonObject = {**found.facts, "would_change": found.would_change} if found.facts else {}
    return {"name": name, "state": found.state, **change, "why": found.why}


def _surface_summary(surface: ToolSurface) -> str:
    """Return one line: how many tools a model sees, how many are deferred, and how many are left out."""
    policy = surface.selection_policy or {}
    loaded, deferred = len(surface.loaded_tools or ()), len(surface.deferred_tools or ())
    left_out = len(surface.blocked_tools or ()) + len(surface.excluded_tools or ())
    line = f"a model sees {loaded - bool(deferred)} of these, about {policy.get('loaded_tokens', 0):,} tokens"
    if deferred:
        line += f" with tool_search; {deferred:,} deferred, about {policy.get('deferred_tokens', 0):,} tokens"
    if left_out:
        line += f"; {left_out:,} left out: --why NAME explains it"
    return line


def _argument_names(declaration: ToolDeclaration) -> Iterator[tuple[str, str]]:
    """Yield the names of the arguments, each with its style; an optional one is dim."""
    schema = (declaration.input_contract and declaration.input_contract.model_input_schema) or {}
    properties, required = schema.get("properties"), schema.get("required")
    needed: list[Json] = required if isinstance(required, list) else []
    for name in properties if isinstance(properties, dict) else ():
        yield (f"{printable(name)} ", "") if name in needed else (f"{printable(name)}? ", "dim")


def _facts(interface: ToolInterface) -> Text:
    """Return the facts that decisions use; a fact that was not declared is dim."""
    words = {
        "is_read_only": ("reads", "writes"),
        "is_destructive": ("destroys", ""),
        "is_open_world": ("open world", "closed world"),
        "is_concurrency_safe": ("parallel", "serial"),
    }
    chosen = ((fact, pair[acted_on(interface, fact) is not True]) for fact, pair in words.items())
    inferred = interface.inferred_facts or ()
    return Text(", ").join(Text(word, "dim" if fact in inferred else "") for fact, word in chosen if word)


def _qualified_name(declaration: ToolDeclaration) -> str:
    return f"{declaration.namespace}.{declaration.name}"


def _names(declaration: ToolDeclaration) -> tuple[str, ...]:
    return (_qualified_name(declaration), declaration.name, declaration.tool_id, *(declaration.aliases or ()))


def _surface_for(rt: sync.SyncRuntime, viewers: Iterable[str] | None) -> tuple[sync.SyncRuntime, ToolSurface]:
    """Return the surface of the viewer that the `--as` options describe, and the runtime that it belongs to.

    Raises:
        ConfigError: an option is not known.
    """
    role: Role | None = None
    model: ModelCapabilities | None = None
    is_sub_agent = False
    for word in viewers or ():
        kind, _, value = word.partition("=")
        parts = tuple(part for each in value.split(",") if (part := each.strip()))
        if kind == "role" and parts:
            role = Role(name=value, tools=parts)
        elif kind == "model":
            model = _parse_model(parts)
        elif word == "sub-agent":
            is_sub_agent = True
        else:
            raise ConfigError(f"--as does not know {word!r}; use role=PATTERN, model=CAPABILITY or sub-agent")
    rt = rt.child(rt.surface(role=role, model=model)) if is_sub_agent else rt
    return rt, rt.surface(role=role, model=model)


def _parse_model(words: tuple[str, ...]) -> ModelCapabilities:
    unknown = [each for each in words if each not in _FLAGS and not each.startswith(_MEDIA)]
    if unknown:
        raise ConfigError(f"unknown capability {unknown[0]!r}; use {', '.join(_FLAGS)} or media:image and the like")
    media = frozenset(each.removeprefix(_MEDIA) for each in words if each.startswith(_MEDIA))
    return ModelCapabilities(**{flag: flag in words for flag in _FLAGS}, media=media)


def search(
    words: Annotated[list[str], required("QUERY", "What the tool does, or select:NAME,NAME")],
    *,
    limit: int = option("--limit", "Show at most this many", low=1, default=10),
    model: str | None = option("--model FOLDER", "Search by meaning with this model; none for words only"),
    viewers: list[str] | None = _VIEWERS,
    options: ToolUrlOptions,
) -> None:
    """Find tools by what they do, or by exact name, as a model would."""
    options = options.resolved({"as": viewers, "model": model})
    tools, surface, query = options.load_tools(), None, " ".join(words)
    if options.url is None:
        config = options.config
        with sync.open(store="memory:", approve="wait", config=config, tools=tools, search_model=model) as rt:
            require_tools(rt, tools, f"{program_name()} search {shlex.join(words)} --from MODULE")
            viewer, surface = _surface_for(rt, viewers)
            viewer.surfaces.prepare_search()
            result = viewer.search(query, surface=surface, limit=limit)
    else:
        with open_server(options.url) as gateway:
            result = gateway.search(query, limit=limit)
    print_json(to_json(result))
    if not is_json():
        _print_matches(result)
        _print_missing_credentials(surface)
    raise typer.Exit(0 if result.matches else NOTHING_FOUND)


def _print_missing_credentials(surface: ToolSurface | None) -> None:
    """Print why tools without their credentials are not found; a user who added a source expects them."""
    blocked = () if surface is None else surface.blocked_tools or ()
    reasons = Counter(each.message for each in blocked if each.reason is AbsenceReason.CREDENTIAL_MISSING)
    for reason, count in reasons.most_common(_MAX_REASONS):
        tools = f"{count:,} tools were" if count > 1 else "1 tool was"
        hint(f"{tools} left out of the search: {reason}", "yellow")


def _print_matches(result: ToolSearchResult) -> None:
    matches = [each for each in result.matches if isinstance(each, SearchMatch)]
    rows = (
        (
            each.name or each.tool_id,
            f"{each.score or 0:.2f}",
            Bar(1.0, 0, each.score or 0.0, width=BAR_WIDTH, color="green"),
            each.reason or "",
        )
        for each in matches
    )
    if matches:
        Console().print(plain_table(fixed("tool", "cyan"), "score", "", "why", rows=rows))
        must_load = result.next_action == NextAction.LOAD_SCHEMA_THEN_CALL
        print_text("a model loads these, then calls them" if must_load else "a model can call these", "dim")
    for name in result.missing_names or ():
        hint(f"no tool is named {name!r}", None)
    if not matches and not result.missing_names:
        hint("no tool matches; use other words, or fewer", None)

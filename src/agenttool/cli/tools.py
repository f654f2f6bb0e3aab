"""`agenttool tools` and `agenttool search`: the tools of a module, as a model would see and find them."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.bar import Bar
from rich.console import Console, RenderableType

from agenttool import sync
from agenttool.adapters.python.source import Tool, declared, load_tools
from agenttool.catalog.absence_text import ToolVisibility, visibility_on
from agenttool.catalog.unresolved import similar_names
from agenttool.cli.format import print_json
from agenttool.cli.options import JsonOption, SettingsOption, ToolsOption, UrlOption, server_url
from agenttool.cli.output import escape_markup, indented, plain_table, print_blocks, print_text
from agenttool.codec import to_json
from agenttool.config import AUTO
from agenttool.config.layers import SETTINGS_FILE
from agenttool.config.program import program_name
from agenttool.errors import ConfigError
from agenttool.history.printable import printable
from agenttool.ports.surfacing import ModelCapabilities, Role
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

NOTHING_FOUND = 1
BAR_WIDTH = 10
"""The width of the bar of a perfect score."""

_MAX_REASONS = 3
_FLAGS = ("strict_schemas", "parallel_calls", "deferred_refs")
_MEDIA = "media:"

ViewerOption = Annotated[
    list[str] | None,
    typer.Option("--as", metavar="VIEWER", help="Look as role=PATTERN,…, model=CAPABILITY,… or sub-agent"),
]


def tools(
    *,
    places: ToolsOption = None,
    why: Annotated[str | None, typer.Option(metavar="NAME", help="Explain why a model cannot see this tool")] = None,
    viewers: ViewerOption = None,
    settings: SettingsOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tools of a module, and the facts assumed about them."""
    server = server_url(url, **{"from": places, "as": viewers}, settings=settings)
    if server is not None:
        from agenttool.cli.remote import print_tools  # noqa: PLC0415 -- it loads the HTTP client

        print_tools(server, why, as_json=as_json)
        return
    viewer, given = parse_viewer(viewers), load_tools(places or [])
    with sync.open(store="memory:", approve="wait", config=settings or AUTO, tools=given) as rt:
        require_tools(rt, given, f"{program_name()} tools --from MODULE")
        records, surface = list(rt.journal.export()), viewer.surface(rt)[1]
    if why is not None:
        for explanation in _explain(records, surface, why):
            print_json(explanation) if as_json else typer.echo(printable(str(explanation["why"])))
    elif as_json:
        for record in records:
            print_json(to_json(record))
    else:
        _print_tools(records, surface)


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
        given = load_tools(ctx.params.get("places") or [])
    declarations = [declared(each).declaration for each in given]
    names = [name for each in declarations for name in (each.name, _qualified_name(each))]
    return [name for name in names if name.startswith(incomplete)]


def _print_tools(records: list[Record], surface: ToolSurface) -> None:
    blocks: list[RenderableType] = []
    interfaces = {each.tool_id: each for each in records if isinstance(each, ToolInterface)}
    for declaration in records:
        if isinstance(declaration, ToolDeclaration):
            description = escape_markup(declaration.description.split("\n")[0])
            head = f"[cyan]{escape_markup(_qualified_name(declaration))}[/]  {_argument_names(declaration)}".rstrip()
            blocks += [head, indented(description), indented(_facts(interfaces[declaration.tool_id]))]
    print_blocks(blocks)
    print_text(Console(), _surface_summary(surface), "dim")


def _explain(records: list[Record], surface: ToolSurface, name: str) -> list[JsonObject]:
    """Return the visibility of the tools with a name on the surface that a model would get.

    Raises:
        ConfigError: there is no such tool.
    """
    declared = [record for record in records if isinstance(record, ToolDeclaration)]
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


def _argument_names(declaration: ToolDeclaration) -> str:
    schema = (declaration.input_contract and declaration.input_contract.model_input_schema) or {}
    properties, required = schema.get("properties"), schema.get("required")
    names: list[str] = list(properties) if isinstance(properties, dict) else []
    needed: list[Json] = required if isinstance(required, list) else []
    return " ".join(escape_markup(name) if name in needed else f"[dim]{escape_markup(name)}?[/]" for name in names)


def _facts(interface: ToolInterface) -> str:
    """Return the facts that decisions use; a fact that was not declared is dim."""
    words = {
        "is_read_only": ("reads", "writes"),
        "is_destructive": ("destroys", ""),
        "is_open_world": ("open world", "closed world"),
        "is_concurrency_safe": ("parallel", "serial"),
    }
    inferred = interface.inferred_facts or ()
    chosen = [(fact, pair[0] if acted_on(interface, fact) is True else pair[1]) for fact, pair in words.items()]
    return ", ".join(f"[dim]{word}[/]" if fact in inferred else word for fact, word in chosen if word)


def _qualified_name(declaration: ToolDeclaration) -> str:
    return f"{declaration.namespace}.{declaration.name}"


def _names(declaration: ToolDeclaration) -> tuple[str, ...]:
    return (_qualified_name(declaration), declaration.name, declaration.tool_id, *(declaration.aliases or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The model for which a surface is made: its role, its capabilities, and whether it is a sub-agent."""

    role: Role | None = None
    model: ModelCapabilities | None = None
    is_sub_agent: bool = False

    def surface(self, rt: sync.SyncRuntime) -> tuple[sync.SyncRuntime, ToolSurface]:
        """Return the viewer's surface, and the runtime that it belongs to."""
        surface = rt.surface(role=self.role, model=self.model)
        if not self.is_sub_agent:
            return rt, surface
        child = rt.child(surface)
        return child, child.surface(role=self.role, model=self.model)


def parse_viewer(words: Iterable[str] | None) -> Viewer:
    """Return the viewer that the `--as` options describe.

    Raises:
        ConfigError: an option is not known.
    """
    role: Role | None = None
    model: ModelCapabilities | None = None
    is_sub_agent = False
    for word in words or ():
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
    return Viewer(role=role, model=model, is_sub_agent=is_sub_agent)


def _parse_model(words: tuple[str, ...]) -> ModelCapabilities:
    unknown = [each for each in words if each not in _FLAGS and not each.startswith(_MEDIA)]
    if unknown:
        raise ConfigError(f"unknown capability {unknown[0]!r}; use {', '.join(_FLAGS)} or media:image and the like")
    media = frozenset(each.removeprefix(_MEDIA) for each in words if each.startswith(_MEDIA))
    return ModelCapabilities(**{flag: flag in words for flag in _FLAGS}, media=media)


def search(  # noqa: PLR0913 -- one for each option of the command
    words: Annotated[list[str], typer.Argument(metavar="QUERY", help="What the tool does, or select:NAME,NAME")],
    *,
    places: ToolsOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most this many")] = 10,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="FOLDER", help="Search by meaning with this model; none for words only"),
    ] = None,
    viewers: ViewerOption = None,
    settings: SettingsOption = None,
    url: UrlOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the search result as JSON and nothing else")] = False,
) -> None:
    """Find tools by what they do, or by exact name, as a model would."""
    server = server_url(url, **{"from": places, "as": viewers}, settings=settings, model=model)
    viewer, tools = parse_viewer(viewers), load_tools(places or [])
    surface, config = None, settings or AUTO
    if server is None:
        with sync.open(store="memory:", approve="wait", config=config, tools=tools, search_model=model) as rt:
            require_tools(rt, tools, f"{program_name()} search {shlex.join(words)} --from MODULE")
            viewer_runtime, surface = viewer.surface(rt)
            viewer_runtime.prepare_search()
            result = viewer_runtime.search(" ".join(words), surface=surface, limit=limit)
    else:
        from agenttool.cli.remote import open_server  # noqa: PLC0415 -- it loads the HTTP client

        with open_server(server) as gateway:
            result = gateway.search(" ".join(words), limit=limit)
    if as_json:
        print_json(to_json(result))
    else:
        _print_matches(result)
        _print_missing_credentials(surface)
    raise typer.Exit(0 if result.matches else NOTHING_FOUND)


def _print_missing_credentials(surface: ToolSurface | None) -> None:
    """Print why tools without their credentials are not found; a user who added a source expects them."""
    blocked = () if surface is None else surface.blocked_tools or ()
    reasons = Counter(each.message for each in blocked if each.reason is AbsenceReason.CREDENTIAL_MISSING)
    for reason, count in reasons.most_common(_MAX_REASONS):
        tools = f"{count:,} tools were" if count > 1 else "1 tool was"
        print_text(Console(stderr=True), f"{tools} left out of the search: {reason}", "yellow")


def _print_matches(result: ToolSearchResult) -> None:
    matches = [each for each in result.matches if isinstance(each, SearchMatch)]
    console, errors = Console(), Console(stderr=True)
    table = plain_table("tool", "score", "", "why")
    for match in matches:
        name, reason = escape_markup(match.name or match.tool_id), escape_markup(match.reason or "")
        bar = Bar(1.0, 0, match.score or 0.0, width=BAR_WIDTH, color="green")
        table.add_row(f"[cyan]{name}[/]", f"{match.score:.2f}", bar, reason)
    if matches:
        console.print(table)
        must_load = result.next_action == NextAction.LOAD_SCHEMA_THEN_CALL
        print_text(console, "a model loads these, then calls them" if must_load else "a model can call these", "dim")
    for name in result.missing_names or ():
        print_text(errors, f"no tool is named {name!r}")
    if not matches and not result.missing_names:
        print_text(errors, "no tool matches; use other words, or fewer")

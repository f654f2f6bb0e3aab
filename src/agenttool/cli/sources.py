"""`agenttool sources`: list sources with their state, review changed tools, and preview requests."""

import asyncio
import json
import shlex
import webbrowser
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import RenderableType
from rich.text import Text

from agenttool.cli.call import input_schema, read_arguments
from agenttool.cli.format import print_json, print_rows
from agenttool.cli.import_settings import ServerSource, add
from agenttool.cli.openapi_service import ServiceSource, unusable_parts
from agenttool.cli.options import SETTINGS_FILE, StoreOptions, argument, option, required
from agenttool.cli.output import done, hint, indented, is_json, plain_table, print_blocks, print_error, print_text
from agenttool.cli.prompt import shown_mark, was_shown
from agenttool.codec import digest_of_any
from agenttool.config.program import program_name
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError
from agenttool.ports.source import ReviewedSource, Source, SourceStatus
from agenttool.records import Json, JsonObject, Lifecycle
from agenttool.runtime import Runtime

if TYPE_CHECKING:  # the packages behind it may not be installed
    from agenttool.adapters.openapi.http import HttpRequest

app = typer.Typer(add_completion=False)
app.command()(add)

FAULTY = 1
"""Exit code: a server does not answer, or tools wait for a review."""

LOG_LINES = 5
"""How many lines of the log of a server that does not answer are printed."""

_S = TypeVar("_S")


@app.callback(invoke_without_command=True)
def sources(context: typer.Context, *, options: StoreOptions) -> None:
    """List the servers in the settings, and review changed tools."""
    if context.invoked_subcommand is not None:
        return
    found = asyncio.run(_states(options))
    empty = f"there are no sources; add [sources.NAME] to {SETTINGS_FILE}"
    print_rows(found, _state_blocks(found), empty=empty)
    if any(row["state"] != "ready" or row["waiting"] for row in found):
        raise typer.Exit(FAULTY)


@app.command()
def log(name: str, *, options: StoreOptions) -> None:
    """Start a server, and print what it writes to its standard error and its log."""

    async def lines() -> Sequence[str]:
        async with _open(options) as rt:
            source = _source(rt, name, ServerSource, "an MCP server")
            await source.check()
            return source.log

    for line in asyncio.run(lines()):
        print_json({"line": line})
        print_text(line)


@app.command()
def login(name: str, *, options: StoreOptions) -> None:
    """Log in to a server that requires OAuth; its tokens are stored, and renewed by later calls."""

    async def state() -> SourceStatus | None:
        rt = _open(options)
        source = _source(rt, name, ServerSource, "an MCP server")
        source.use_login(_show_page)
        async with rt:
            await source.check()
            return rt.sources.status_of(name)

    found = asyncio.run(state())
    if found is None or not found.is_ready:
        raise ConfigError(f"the login at {name!r} did not succeed: {found and found.fault}; try again")
    print_json({"source": name, "state": "ready"})
    done(f"{name} is ready")


def _show_page(url: str) -> None:
    hint("open this page, and grant access:", "bold")
    typer.echo(url, err=True)
    webbrowser.open(url)


@app.command()
def review(
    name: str,
    tools: list[str] | None = argument("TOOL", "Only these tools"),
    *,
    accept: str | None = option("--accept DIGEST", "Accept what you saw; the review prints its digest"),
    options: StoreOptions,
) -> None:
    """Show how tools of a server changed, and accept the changes; until then these tools do not run."""

    async def reviewed() -> tuple[list[JsonObject], str, bool]:
        async with _open(options) as rt:
            source = _source(rt, name, ReviewedSource, "an MCP server or an OpenAPI service")
            await source.check()
            waiting = dict(source.waiting)
            unknown = [each for each in tools or () if each not in waiting]
            if unknown:
                raise ConfigError(f"no tool {unknown[0]!r} of {name!r} waits for a review; {_waiting(source)}")
            chosen = sorted(tools or waiting)
            changes = [source.describe_change(each) for each in chosen]
            digest = digest_of_any([[each["tool"], each["digest"]] for each in changes])
            is_accepted = accept is not None and was_shown(digest, accept)
            if is_accepted:
                await source.accept({each: waiting[each] for each in chosen})
            return changes, shown_mark(digest), is_accepted

    changes, mark, is_accepted = asyncio.run(reviewed())
    for change in changes:
        print_json({**change, "digest": mark, "accepted": is_accepted})
        _print_change(change)
    if changes and accept is not None and not is_accepted:
        message = f"nothing was accepted: you saw something else, {accept!r}; read it again, then use --accept {mark}"
        print_error("other_definition", message)
    elif not is_json():
        count, waits = ("1 tool", "waits") if len(changes) == 1 else (f"{len(changes)} tools", "wait")
        command = f"{program_name()} sources review {shlex.join([name, *(tools or ())])} --accept {mark}"
        advice = f"accept with: {command}{options.arguments}"
        outcome = f"{count} accepted" if is_accepted else f"{count} {waits} for a review; {advice}"
        print_text(outcome if changes else "nothing waits for a review", "dim")
    if changes and not is_accepted:
        raise typer.Exit(FAULTY)


@app.command()
def request(
    source: Annotated[str, required("", "The name of the source")],
    tool: Annotated[str, required("", "The tool")],
    words: list[str] | None = argument("KEY=VALUE", "Arguments"),
    *,
    args: str | None = option("--args JSON", "Arguments as a JSON object"),
    options: StoreOptions,
) -> None:
    """Print the request that a call of an OpenAPI service would send; secrets are masked, and nothing is sent."""

    async def previewed() -> "HttpRequest":
        async with _open(options) as rt:
            found = _source(rt, source, ServiceSource, "an OpenAPI service")
            given = read_arguments(words or [], args, None)
            schema = input_schema(rt, f"{source}.{tool.removeprefix(f'{source}.')}")
            try:
                return found.preview(tool, given.for_schema(schema))
            except ValueError as error:
                raise ConfigError(str(error)) from error

    shown = asyncio.run(previewed())
    body = None if shown.body is None else shown.body.decode(errors="replace")
    print_json({"method": shown.method, "url": shown.url, "headers": dict(shown.headers), "body": body})
    print_text(f"{shown.method} {shown.url}")
    for name, value in shown.headers.items():
        print_text(f"{name}: {value}")
    if body is not None:
        print_text(f"\n{body}")


def _open(options: StoreOptions) -> Runtime:
    options = options.for_use()
    return Runtime.open(config=options.config, store=options.store, approve="wait")


def _waiting(source: ReviewedSource) -> str:
    return f"these do: {', '.join(sorted(source.waiting))}" if source.waiting else "none does"


def _source(rt: Runtime, name: str, kind: type[_S], description: str) -> _S:
    """Return a source of the settings.

    Raises:
        ConfigError: there is none of this name, or it is not of this kind.
    """
    found = rt.sources.get(name)
    if found is None:
        known = rt.sources.names
        advice = suggestion(name, known) if known else f"add [sources.{name}] to {SETTINGS_FILE}"
        raise ConfigError(f"no source is named {name!r}; {advice}")
    if not isinstance(found, kind):
        raise ConfigError(f"the source {name!r} is not {description}; name one that is")
    return found


async def _states(options: StoreOptions) -> list[JsonObject]:
    async with _open(options) as rt:
        found = [each for name in rt.sources.names if (each := rt.sources.get(name)) is not None]
        await asyncio.gather(*(each.check() for each in found if isinstance(each, ReviewedSource)))
        declared = (each.tool.declaration for each in rt.inspection.tools())
        usable = (Lifecycle.AVAILABLE, Lifecycle.DEPRECATED)
        counts = Counter(each.namespace for each in declared if each.lifecycle in usable)
        sources = {each.name: each for each in found}
        statuses = await rt.sources.status()
        return [_state(each, sources.get(each.source), counts[each.source]) for each in statuses]


def _state(status: SourceStatus, source: Source | None, tools: int) -> JsonObject:
    server = source if isinstance(source, ServerSource) else None
    lines: list[Json] = [] if server is None else [*server.log]
    waiting: list[Json] = [*sorted(source.waiting)] if isinstance(source, ReviewedSource) else []
    return {
        "source": status.source,
        "state": status.state.value,
        "tools": tools,
        "protocol": None if server is None else server.protocol_version,
        "fault": status.fault,
        "waiting": waiting,
        "log": lines,
        **(unusable_parts(source) if isinstance(source, ServiceSource) else {}),
    }


def _state_blocks(found: Sequence[JsonObject]) -> Iterator[RenderableType]:
    columns = ("source", "state", "tools", "protocol", "fault")
    rows = (("" if row[each] is None else str(row[each]) for each in columns) for row in found)
    yield plain_table(*columns, rows=rows)
    for row in found:
        lines = row["log"]
        if row["state"] != "ready" and isinstance(lines, list) and lines:
            yield f"the log of {row['source']} ends with:"
            yield from (indented(str(line)) for line in lines[-LOG_LINES:])


def _print_change(change: JsonObject) -> None:
    kind = "changed" if change["is_changed"] else "new"
    blocks: list[RenderableType] = [Text.assemble((str(change["tool"]), "cyan"), f"  {kind}")]
    members = change["members"]
    for member, values in members.items() if isinstance(members, dict) else ():
        before, after = values if isinstance(values, list) else (None, values)
        blocks.append(indented(f"{member}:"))
        blocks += [
            indented(indented(f"{mark} {json.dumps(value, ensure_ascii=False)}"))
            for mark, value in (("-", before), ("+", after))
            if value is not None
        ]
    print_blocks(blocks)

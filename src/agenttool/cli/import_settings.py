"""`agenttool import` and `agenttool sources add`: try servers, and add those that work to the settings."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

import typer
from rich.console import Console, RenderableType

from agenttool.adapters.mcp.settings import McpServer, read_server
from agenttool.adapters.source_settings import RESERVED_NAME, check_name
from agenttool.catalog.entry import estimate_tokens
from agenttool.cli.client_settings import (
    COMMAND_LINE,
    ClientFile,
    ClientServer,
    Credentials,
    ImportedServer,
    client_files,
    client_servers,
    import_server,
    is_own_url,
    named_file,
    read_json,
    source_name,
)
from agenttool.cli.format import print_json
from agenttool.cli.openapi_service import (
    declared_tools,
    open_trial,
    print_trial,
    service_name,
    try_service,
)
from agenttool.cli.options import JsonOption, SettingsOption
from agenttool.cli.output import escape_markup, figures, fixed, plain_table, print_blocks, print_text
from agenttool.cli.progress import WorkBar
from agenttool.config import ServerSetting, environment, load_config, settings_layers
from agenttool.config.layers import AUTO
from agenttool.config.table import suggestion
from agenttool.config.writer import append_tables, change_table, toml_table
from agenttool.errors import AgentToolError, ConfigError
from agenttool.history.printable import one_line
from agenttool.ports.source import ReviewedSource, Source
from agenttool.records import Json, JsonObject, Lifecycle
from agenttool.records.record import replace

OPENAPI = "openapi"
"""The word in place of a name with which an OpenAPI service is added."""

FAULTY = 1
"""Exit code: a server was not added because it does not work here."""

TRIED_AT_A_TIME = 8
DEFAULT_TRIAL_S = 30.0
_RETRIED = "; it is tried again automatically"
_OWN_LINE = "agenttool: "
_TYPED = ClientFile(COMMAND_LINE, Path())
_ADDED = "Added by agenttool sources add"

_Try = Annotated[bool, typer.Option("--try/--no-try", help="Start each server, and add only those that answer")]
_Timeout = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long a server may take to answer")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing")]


@runtime_checkable
class ServerSource(Source, ReviewedSource, Protocol):
    """A source that is one server, such as an MCP server."""

    @property
    def log(self) -> tuple[str, ...]:
        """The latest lines of its log."""
        ...

    @property
    def protocol_version(self) -> str | None:
        """The revision of its session."""
        ...

    def use_login(self, show: Callable[[str], None]) -> None:
        """Have a user log in when the server requires it."""
        ...


@dataclass(slots=True)
class ImportRow:
    """One server, and what became of it.

    Attributes:
        server: as it would be written; none if it cannot be.
        state: `ready`, `untried`, `skipped` or `failed`.
        reason: why it is not ready, or what of it is not imported.
    """

    given: ClientServer
    server: ImportedServer | None = None
    state: str = "untried"
    reason: str = ""
    tools: int | None = None
    tokens: int | None = None

    @property
    def transport(self) -> str:
        """The transport of the server."""
        members = self.server.members if self.server is not None else {}
        return str(members.get("transport", "http" if "url" in members else "stdio")) if members else ""

    def as_json(self) -> JsonObject:
        """Return the row for programs."""
        server = self.server
        return {
            "server": self.given.name,
            "source": None if server is None else server.name,
            "client": self.given.origin.client,
            "file": str(self.given.origin.path),
            "transport": self.transport or None,
            "state": self.state,
            "reason": self.reason or None,
            "tools": self.tools,
            "tokens": self.tokens,
        }


@dataclass(slots=True)
class ImportTarget:
    """The settings file that servers are added to, and what applies already."""

    file: Path
    sources: dict[str, JsonObject]
    credentials: Credentials
    configured: frozenset[str] = field(default_factory=frozenset[str])
    gateway: ServerSetting = field(default_factory=ServerSetting)

    @classmethod
    def find(cls, settings: Path | None) -> "ImportTarget":
        """Return the given file, or that of the project."""
        file = settings or settings_layers()[1].file
        exists = settings is None or settings.is_file()
        config = load_config((settings or AUTO) if exists else None)
        variables = {
            str(each.members["env"]): name for name, each in config.credentials.items() if "env" in each.members
        }
        others = {f"[{name}]": name for name in config.credentials if name not in variables.values()}
        known = Credentials(lambda name: environment([name]).get(name), {**others, **variables})
        sources = {name: each.members for name, each in config.sources.items()}
        return cls(file, sources, known, frozenset(config.credentials), config.server or ServerSetting())

    def is_own(self, url: str) -> bool:
        """Return whether a URL is the MCP endpoint of the gateway that these settings configure."""
        return is_own_url(url, self.gateway, socket.gethostname())

    def check_new(self, name: str) -> None:
        """Reject a name that no source can have, or that one has.

        Raises:
            ConfigError: says which of the two.
        """
        check_name(name)
        if name in self.sources:
            raise ConfigError(f"there is a source {name!r} already; choose another name, or change it in {self.file}")

    def toml(self, servers: Sequence[ImportedServer], kind: str, origin: str) -> str:
        """Return the tables of sources of one kind and of their credentials; empty if there are none."""
        if not servers:
            return ""
        tables = [toml_table(f"[sources.{each.name}]", {"kind": kind, **each.members}) for each in servers]
        return f"# {origin}.\n" + "\n".join((*tables, *self.credential_tables(servers)))

    def credential_tables(self, servers: Sequence[ImportedServer]) -> list[str]:
        """Return the tables of the credentials of sources that the settings do not have yet."""
        variables = {name: variable for each in servers for name, variable in each.credentials.items()}
        return [
            toml_table(f"[credentials.{name}]", {"env": variable})
            for name, variable in variables.items()
            if name not in self.configured
        ]


def import_settings(  # noqa: PLR0913 -- one for each option of the command
    source: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|CLIENT]", help="claude-code, claude-desktop, cursor, vscode, or a settings file"),
    ] = None,
    *,
    tries: _Try = True,
    timeout: _Timeout = DEFAULT_TRIAL_S,
    dry_run: _DryRun = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Start the servers and write the settings without a question")
    ] = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the MCP servers of Claude, Cursor, VS Code or a file.

    Without an argument, the settings of all these clients are read, here and in your home folder.
    Each server is started, and its tools are listed. Secrets are not copied: each becomes a credential
    that is read from an environment variable.
    """
    target = ImportTarget.find(settings)
    given, faulty = _read_clients(source, target)
    rows = [*_rows(given, target), *faulty]
    usable = [each for each in rows if each.state == "untried"]
    can_ask = sys.stdin.isatty() and not as_json
    if usable and not yes and not can_ask and (tries or not dry_run):
        raise ConfigError("no user can confirm here; pass --yes, or --dry-run with --no-try to start and write nothing")
    if tries and usable and not yes:
        _print_programs(usable)
        typer.confirm(f"Start {_count(usable)} and list the tools?", default=True, abort=True)
    if tries:
        asyncio.run(_try_all(usable, target, timeout))
    chosen = _chosen(rows, tries=tries)
    text = target.toml(chosen, "mcp", "Imported from other MCP clients")
    if not as_json:
        _print_rows(rows)
    if chosen and not dry_run and (yes or typer.confirm(f"Add {_count(chosen)} to {target.file}?", default=True)):
        append_tables(target.file, text)
    elif not dry_run:
        chosen = []
    _report(rows, chosen, target, text if dry_run else "", as_json=as_json)
    if any(each.state == "failed" for each in rows):
        raise typer.Exit(FAULTY)


def add(  # noqa: PLR0913 -- one for each option of the command
    name: Annotated[str, typer.Argument(help="The name of the source, or the word openapi")],
    words: Annotated[
        list[str], typer.Argument(metavar="URL | -- COMMAND", help="A URL, or -- and a command; a document of openapi")
    ],
    *,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable of the program")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="'NAME: VALUE'", help="A header of each request")] = None,
    transport: Annotated[str | None, typer.Option(metavar="http|sse", help="The transport of the URL")] = None,
    named: Annotated[str | None, typer.Option("--name", help="The name of an OpenAPI service")] = None,
    server: Annotated[str | None, typer.Option(metavar="URL", help="The base URL of an OpenAPI service")] = None,
    security: Annotated[
        list[str] | None, typer.Option(metavar="SCHEME=VARIABLE", help="The variable with a scheme's credential")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="A private host of an OpenAPI service")
    ] = None,
    tries: _Try = True,
    timeout: _Timeout = DEFAULT_TRIAL_S,
    dry_run: _DryRun = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try one MCP server, and add it to the settings; with the word openapi and a document, an OpenAPI service."""
    target = ImportTarget.find(settings)
    if name == OPENAPI:
        if len(words) != 1:
            raise ConfigError(f"name one document of an OpenAPI service, got {len(words)} words; write its URL or file")
        document = words[0] if "://" in words[0] else _relative(str(Path(words[0]).resolve()), target.file)
        options: JsonObject = {"document": document, "server": server, "allow": [*(allow or ())]}
        options = {key: each for key, each in options.items() if each}
        name = named or service_name(words[0], lambda: _title(options, target, timeout))
        headers = _split("--header", header or (), ":")
        variables = _split("--security", security or (), "=")
        service = _service(name, headers, variables, options, target)
        _add_service(service, target, timeout, dry_run=dry_run, as_json=as_json)
        return
    target.check_new(name)
    members = _server_members(words, env or (), header or (), transport)
    given = client_servers({"mcpServers": {name: members}}, _TYPED, Path(), target.is_own)
    [row] = rows = _rows(list(given), target)
    if tries and row.state == "untried":
        asyncio.run(_try_all(rows, target, timeout))
    chosen = _chosen(rows, tries=tries)
    text = target.toml(chosen, "mcp", _ADDED)
    if not as_json:
        _print_rows(rows)
    if chosen and not dry_run:
        append_tables(target.file, text)
    _report(rows, chosen, target, text if dry_run else "", as_json=as_json)
    if not chosen:
        raise typer.Exit(FAULTY)


def _server_members(words: list[str], env: Iterable[str], header: Iterable[str], transport: str | None) -> JsonObject:
    """Return an MCP server as clients write it.

    Raises:
        ConfigError: an option does not belong to it.
    """
    is_url = len(words) == 1 and words[0].startswith(("http://", "https://"))
    members: JsonObject = {"url": words[0]} if is_url else {"command": words[0], "args": [*words[1:]]}
    members |= {"type": transport} if transport is not None else {}
    members["env"] = _split("--env", env, "=")
    members["headers"] = _split("--header", header, ":")
    if members["headers" if not is_url else "env"]:
        raise ConfigError("--env is for a command, and --header for a URL; leave the other one out")
    return members


def _title(options: JsonObject, target: ImportTarget, timeout_s: float) -> str:
    """Return the title of a document; empty if it cannot be read."""
    bare = ImportedServer(OPENAPI, options, {}, [], {})
    return try_service(bare, target.file, {}, timeout_s).title


def _service(
    name: str, headers: JsonObject, variables: JsonObject, options: JsonObject, target: ImportTarget
) -> ImportedServer:
    """Return the settings of an OpenAPI service; secrets in headers become credentials.

    A source that has the same document already keeps its settings, unless they are given.

    Raises:
        ConfigError: another source has the name.
    """
    known = {key: each for key, each in target.sources.get(name, {}).items() if key != "kind"}
    if known.get("document") != options["document"]:
        target.check_new(name)
        known = {}
    given = ClientServer(name, _TYPED, {"url": "https://service.invalid", "headers": headers})
    server = import_server(given, name, target.credentials, _read_text, Path.home())
    schemes: JsonObject = {}
    for scheme, variable in variables.items():
        credential = target.credentials.of_variable(str(variable))
        schemes[scheme] = f"${{credentials.{credential}}}"
        server.credentials[credential] = str(variable)
    tables: dict[str, Json] = {"security": schemes, "headers": server.members.get("headers")}
    joined: JsonObject = {
        key: {**_table(known.get(key)), **each} for key, each in tables.items() if isinstance(each, dict) and each
    }
    server.members = {**known, **options, **joined}
    return server


def _table(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _add_service(
    service: ImportedServer, target: ImportTarget, timeout_s: float, *, dry_run: bool, as_json: bool
) -> None:
    """Read the document of a service, print what it brings, and add it to the settings."""
    trial = try_service(service, target.file, target.credentials.values, timeout_s)
    known = target.sources.get(service.name)
    changed = {key: each for key, each in service.members.items() if (known or {}).get(key) != each}
    text = target.toml([service], OPENAPI, _ADDED)
    is_written = trial.fault is None and not dry_run
    is_added, is_changed = is_written and known is None, is_written and known is not None and bool(changed)
    if is_added:
        append_tables(target.file, text)
    elif is_changed:
        change_table(target.file, f"[sources.{service.name}]", changed)
        if credentials := target.credential_tables([service]):
            append_tables(target.file, "\n".join(credentials))
    unset = {variable: name for name, variable in service.credentials.items() if not environment([variable])}
    if as_json:
        shown: JsonObject = {"toml": text} if dry_run else {}
        print_json(
            {
                **trial.as_json(service.name),
                "file": str(target.file),
                "added": is_added,
                "changed": is_changed,
                "set": [*unset],
                **shown,
            }
        )
    else:
        print_trial(service, trial)
        if dry_run and trial.fault is None:
            print_text(
                Console(), f"\nwould be {'added to' if known is None else 'changed in'} {target.file}:\n\n{text}"
            )
        elif is_written:
            done = "added" if is_added else "changed" if is_changed else "nothing changed:"
            print_text(Console(), f"{done} {service.name} {'to' if is_added else 'in'} {target.file}", "green")
        for variable, name in unset.items() if trial.fault is None else ():
            sent = trial.sent_as(name, variable)
            hint = f"set the variable {variable} before you use it" + (f"; requests have {sent!r}" if sent else "")
            print_text(Console(), hint, "yellow")
    if trial.fault is not None:
        raise typer.Exit(FAULTY)


def _split(option: str, pairs: Iterable[str], mark: str) -> JsonObject:
    found: JsonObject = {}
    for each in pairs:
        key, is_pair, value = each.partition(mark)
        if not is_pair or not key:
            raise ConfigError(f"{option} must be written NAME{mark}VALUE, got {key!r}; add the {mark!r}")
        found[key.strip()] = value.strip()
    return found


def _read_clients(source: str | None, target: ImportTarget) -> tuple[list[ClientServer], list[ImportRow]]:
    """Return the servers of a file or of clients, and a row for each file that cannot be read.

    Raises:
        ConfigError: there is no such file, or the file that the user names cannot be read.
    """
    home, here = Path.home(), Path.cwd()
    roaming = Path(environment(["APPDATA"]).get("APPDATA", home / "AppData" / "Roaming"))
    known = client_files(home, here, roaming, sys.platform)
    clients = sorted({each.client for each in known})
    if source is None or source in clients:
        looked = [each for each in known if source in (None, each.client)]
        files = [each for each in looked if each.path.is_file()]
        if not files:
            places = "".join(f"\n  {each.path}" for each in looked)
            raise ConfigError(f"no settings of MCP clients were found; name a file. These places have none:{places}")
    elif Path(source).is_file():
        files = [named_file(Path(source).resolve(), home)]
    else:
        raise ConfigError(f"there is no file and no client {source!r}; {suggestion(source, clients)}")
    servers: list[ClientServer] = []
    faulty: list[ImportRow] = []
    for each in files:
        try:
            content = read_json(_read_text(each.path), each.path)
            servers += client_servers(content, each, each.folder or here, target.is_own)
        except ConfigError as error:
            if source is not None and source not in clients:
                raise
            faulty.append(ImportRow(ClientServer(each.path.name, each, {}), state="failed", reason=str(error)))
    return servers, faulty


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}; name another file") from error


def _rows(given: Sequence[ClientServer], target: ImportTarget) -> list[ImportRow]:
    """Return each server as it would be written, or why it is not."""
    known = {_identity(members): name for name, members in target.sources.items()}
    used = {*target.sources, RESERVED_NAME}
    rows: list[ImportRow] = []
    for each in given:
        row = ImportRow(each, state="skipped", reason=each.skipped or "")
        rows.append(row)
        if row.reason:
            continue
        try:
            server = import_server(each, source_name(each.name, used), target.credentials, _read_text, Path.home())
            if isinstance(folder := server.members.get("cwd"), str):
                server.members["cwd"] = _relative(folder, target.file)
            read_server(server.name, server.members)
        except ConfigError as error:
            row.state, row.reason = "failed", str(error)
            continue
        row.server = server
        if (same := known.get(_identity(server.members))) is not None:
            server.name, row.reason = same, f"the source {same!r} is the same server"
            continue
        known[_identity(server.members)] = server.name
        used.add(server.name)
        row.state, row.reason = "untried", each.note
    return rows


def _identity(members: JsonObject) -> str:
    """Return what two entries of one server have in common."""
    return repr([members.get(key) for key in ("command", "args", "url", "env", "headers")])


def _relative(path: str, file: Path) -> str:
    """Return a path within the folder of the settings file relative to it, and any other path unchanged."""
    base = file.resolve().parent
    return os.path.relpath(path, base) if Path(path).is_relative_to(base) else path


def _chosen(rows: Iterable[ImportRow], *, tries: bool) -> list[ImportedServer]:
    wanted = "ready" if tries else "untried"
    return [each.server for each in rows if each.server is not None and each.state == wanted]


async def _try_all(rows: Sequence[ImportRow], target: ImportTarget, timeout_s: float) -> None:
    """Start the servers, some at a time, and record what they offer."""
    logging.getLogger("agenttool").addHandler(logging.NullHandler())  # the table has the faults
    limit = asyncio.Semaphore(TRIED_AT_A_TIME)

    async def tried(row: ImportRow, server: ImportedServer, bar: WorkBar) -> None:
        async with limit:
            await _try(row, server, target, timeout_s)
            bar.advance()

    with WorkBar(len(rows)) as bar:
        async with asyncio.TaskGroup() as tasks:
            for row in rows:
                if row.server is not None:
                    tasks.create_task(tried(row, row.server, bar))


async def _try(row: ImportRow, server: ImportedServer, target: ImportTarget, timeout_s: float) -> None:
    row.state = "failed"
    if server.missing:
        row.reason = f"the variable {', '.join(dict.fromkeys(server.missing))} is not set; set it, and try again"
        return
    values = {name: target.credentials.values[name] for name in server.credentials if name in target.credentials.values}
    try:
        settings = read_server(server.name, server.members, target.file.resolve().parent)
        trial = replace(settings, start_timeout_s=timeout_s, env={**settings.env, **server.trial_env})
        row.reason = await _connect(row, trial, values)
    except AgentToolError as error:
        row.reason = str(error)
    for value in (*values.values(), *server.trial_env.values()):
        row.reason = row.reason.replace(value, "[redacted]")
    row.state = "failed" if row.reason else "ready"
    row.reason = row.reason or row.given.note


async def _connect(row: ImportRow, settings: McpServer, values: dict[str, str]) -> str:
    """Connect to a server and count its tools; return why it cannot be used, or an empty text."""
    async with open_trial(settings, values) as rt:
        source = rt.sources.get(settings.name)
        if not isinstance(source, ServerSource):
            return "it is not an MCP server"
        await source.check()
        status = source.health()[0]
        if not status.is_ready:
            reason = (status.fault or "it does not answer").removesuffix(_RETRIED)
            said = [line for line in source.log if line.strip() and not line.startswith(_OWN_LINE)]
            return f"{reason}; it wrote: {said[-1]}" if said and said[-1] not in reason else reason
        declared = [each for each in declared_tools(rt, settings.name) if each.lifecycle is Lifecycle.AVAILABLE]
    row.tools, row.tokens = len(declared), sum(map(estimate_tokens, declared))
    return ""


def _print_programs(rows: Iterable[ImportRow]) -> None:
    """Print what a trial starts or contacts, and which secrets it gets."""
    table = (
        (*map(escape_markup, (each.given.name, _program(each.server), ", ".join(each.server.credentials.values()))),)
        for each in rows
        if each.server is not None
    )
    print_blocks([plain_table("server", "command or url", "secrets", rows=table)])


def _program(server: ImportedServer) -> str:
    args = server.members.get("args")
    words = [server.members.get("command", server.members.get("url")), *(args if isinstance(args, list) else ())]
    return one_line(" ".join(map(str, words)))


def _print_rows(rows: Sequence[ImportRow]) -> None:
    def cells(row: ImportRow) -> Iterable[RenderableType]:
        tools = "" if row.tools is None else f"{row.tools:,}"
        tokens = "" if row.tokens is None else f"{row.tokens:,}"
        name = row.given.name if row.server is None or row.server.name == row.given.name else row.server.name
        return escape_markup(name), row.transport, tools, tokens, row.state, escape_markup(one_line(row.reason))

    columns = ("server", fixed("transport"), figures("tools"), figures("tokens"), fixed("state"), "reason")
    print_blocks([plain_table(*columns, rows=map(cells, rows))])


def _count(servers: Sequence[object]) -> str:
    return "1 server" if len(servers) == 1 else f"{len(servers)} servers"


def _report(
    rows: Sequence[ImportRow], chosen: Sequence[ImportedServer], target: ImportTarget, text: str, *, as_json: bool
) -> None:
    """Print what was written, or would be, and which variables must be set."""
    needed = {variable: each.name for each in chosen for variable in (*each.credentials.values(), *each.trial_env)}
    unset: list[Json] = [each for each in needed if not environment([each])]
    names: list[Json] = [each.name for each in chosen]
    if as_json:
        servers: list[Json] = [each.as_json() for each in rows]
        shown: JsonObject = {"toml": text} if text else {}
        print_json(
            {"servers": servers, "file": str(target.file), "added": [] if text else names, "set": unset, **shown}
        )
        return
    console = Console()
    if text:
        print_text(console, f"\nwould be added to {target.file}:\n\n{text}")
    elif chosen:
        print_text(console, f"added {_count(chosen)} to {target.file}", "green")
    elif rows:
        print_text(console, "nothing was added; --no-try adds servers without a trial", "yellow")
    else:
        print_text(console, "nothing was added: the settings list no MCP servers", "yellow")
    if unset:
        print_text(console, "secrets are not copied; before you use these servers, set:", "yellow")
        for each in unset:
            print_text(console, f"  {each}  (for {needed[str(each)]})")

"""`agenttool import` and `agenttool sources add`: try servers, and add those that work to the settings."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

import typer

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
    client_server,
    is_own_url,
    named_file,
    object_in,
    read_servers,
    source_name,
)
from agenttool.cli.format import print_json
from agenttool.cli.openapi_service import declared_tools, open_trial, print_trial, service_name, try_service
from agenttool.cli.options import SettingsOptions, argument, flag, option, required
from agenttool.cli.output import done, figures, fixed, is_json, plain_table, print_blocks, print_text
from agenttool.cli.progress import WorkBar
from agenttool.config import Config, ServerSetting, environment, load_config, settings_layers
from agenttool.config.layers import AUTO
from agenttool.config.table import suggestion
from agenttool.config.writer import append_tables, change_table, toml_table
from agenttool.errors import AgentToolError, ConfigError
from agenttool.history.printable import one_line
from agenttool.ports.source import LoggingSource, ReviewedSource, Source
from agenttool.records import Json, JsonObject, Lifecycle, McpMapping
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


@runtime_checkable
class ServerSource(Source, ReviewedSource, LoggingSource, Protocol):
    """A source that is one server, and that a user can log in to."""

    def use_login(self, show: Callable[[str], None]) -> None:
        """Have a user log in when the server requires it."""
        ...


@dataclass(frozen=True, kw_only=True)
class ImportTarget:
    """The options of the two commands: the settings file that servers are added to, and how servers are tried."""

    tries: bool = option("--try/--no-try", "Start each server, and add only those that answer", default=True)
    timeout_s: float = option(
        "--timeout SECONDS", "How long a server may take to answer", default=DEFAULT_TRIAL_S, low=0.1
    )
    dry_run: bool = flag("--dry-run", "Show what would be written, and write nothing")
    settings: Path | None = SettingsOptions.settings

    @property
    def file(self) -> Path:
        """The given file, or that of the project."""
        return self.settings or settings_layers()[1].file

    @cached_property
    def config(self) -> Config:
        """The settings that apply already."""
        exists = self.settings is None or self.settings.is_file()
        return load_config((self.settings or AUTO) if exists else None)

    @cached_property
    def credentials(self) -> Credentials:
        """The credentials of these settings, and those that servers add to them."""
        tables = self.config.credentials.items()
        return Credentials({str(each.members.get("env", f"[{name}]")): name for name, each in tables})

    @property
    def sources(self) -> dict[str, JsonObject]:
        """The sources that apply already."""
        return {name: each.members for name, each in self.config.sources.items()}

    def is_own(self, url: str) -> bool:
        """Return whether a URL is the MCP endpoint of the gateway that these settings configure."""
        return is_own_url(url, self.config.server or ServerSetting(), socket.gethostname())

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
        rules = [toml_table("[[rules]]", each.deny_rule) for each in servers if each.denied]
        return f"# {origin}.\n" + "\n".join((*tables, *self.credential_tables(servers), *rules))

    def credential_tables(self, servers: Sequence[ImportedServer]) -> list[str]:
        """Return the tables of the credentials of sources that the settings do not have yet."""
        variables = {name: variable for each in servers for name, variable in each.credentials.items()}
        return [
            toml_table(f"[credentials.{name}]", {"env": variable})
            for name, variable in variables.items()
            if name not in self.config.credentials
        ]


def import_settings(
    source: str | None = argument("[FILE|CLIENT]", "The name of a client, such as claude-code, or a settings file"),
    *,
    target: ImportTarget,
    yes: bool = flag("--yes", "Start the servers and write the settings without a question"),
) -> None:
    """Add the MCP servers of another client or of a file.

    Without an argument, the settings of all these clients are read, here and in your home folder.
    Each server is started, and its tools are listed. Secrets are not copied: each becomes a credential
    that is read from an environment variable.
    """
    rows = _read_clients(source, target)
    _translate(rows, target)
    usable = [each for each in rows if each.state == "untried"]
    can_ask = sys.stdin.isatty() and not is_json()
    if usable and not yes and not can_ask and (target.tries or not target.dry_run):
        raise ConfigError("no user can confirm here; pass --yes, or --dry-run with --no-try to start and write nothing")
    if target.tries and usable and not yes:
        _print_programs(usable)
        typer.confirm(f"Start {_count(usable)} and list the tools?", default=True, abort=True)
    if target.tries:
        asyncio.run(_try_all(usable, target))
    for row in usable if not target.tries else ():
        if row.server is not None and row.server.allowed is not None:
            row.state, row.reason = "failed", "it has a list of allowed tools, which needs a trial to find the others"
    _write(rows, target, "Imported from other MCP clients", yes=yes)
    if any(each.state == "failed" for each in rows):
        raise typer.Exit(FAULTY)


def add(  # noqa: PLR0913 -- one for each option of the command
    name: Annotated[str, required("", "The name of the source, or the word openapi")],
    words: Annotated[list[str], required("URL | -- COMMAND", "A URL, or -- and a command; a document of openapi")],
    *,
    env: list[str] | None = option("--env NAME=VALUE", "A variable of the program"),
    header: list[str] | None = option("--header 'NAME: VALUE'", "A header of each request"),
    transport: str | None = option("--transport http|sse", "The transport of the URL"),
    named: str | None = option("--name", "The name of an OpenAPI service"),
    server: str | None = option("--server URL", "The base URL of an OpenAPI service"),
    security: list[str] | None = option("--security SCHEME=VARIABLE", "The variable with a scheme's credential"),
    allow: list[str] | None = option("--allow HOST", "A private host of an OpenAPI service"),
    target: ImportTarget,
) -> None:
    """Try one MCP server, and add it to the settings; with the word openapi and a document, an OpenAPI service."""
    if name == OPENAPI:
        if len(words) != 1:
            raise ConfigError(f"name one document of an OpenAPI service, got {len(words)} words; write its URL or file")
        document = words[0] if "://" in words[0] else _relative(str(Path(words[0]).resolve()), target.file)
        options: JsonObject = {"document": document, "server": server, "allow": [*(allow or ())]}
        options = {key: each for key, each in options.items() if each}
        name = named or service_name(words[0], lambda: _title(options, target))
        headers = _split("--header", header or (), ":")
        variables = _split("--security", security or (), "=")
        service = _service(name, headers, variables, options, target)
        _add_service(service, target)
        return
    target.check_new(name)
    members = _server_members(words, env or (), header or (), transport)
    rows = [client_server(name, members, _TYPED, target.is_own)]
    _translate(rows, target)
    if target.tries and rows[0].state == "untried":
        asyncio.run(_try_all(rows, target))
    if not _write(rows, target, _ADDED, yes=True):
        raise typer.Exit(FAULTY)


def _write(rows: Sequence[ClientServer], target: ImportTarget, origin: str, *, yes: bool) -> bool:
    """Print all servers, add the usable ones, and print what to do next; return whether one is usable."""
    wanted, dry_run = "ready" if target.tries else "untried", target.dry_run
    chosen = [each.server for each in rows if each.server is not None and each.state == wanted]
    text = target.toml(chosen, "mcp", origin)
    _print_rows(rows)
    is_added = bool(chosen) and not dry_run
    is_added = is_added and (yes or typer.confirm(f"Add {_count(chosen)} to {target.file}?", default=True))
    if is_added:
        append_tables(target.file, text)
    _report(rows, chosen if is_added or dry_run else [], target, text if dry_run else "")
    return bool(chosen)


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


def _title(options: JsonObject, target: ImportTarget) -> str:
    """Return the title of a document; empty if it cannot be read."""
    bare = ImportedServer(ClientServer(OPENAPI, _TYPED, {}), OPENAPI, Credentials())
    bare.members = options
    return try_service(bare, target.file, {}, target.timeout_s).title


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
    server = ImportedServer(ClientServer(name, _TYPED, {"headers": headers}), name, target.credentials)
    schemes: JsonObject = {scheme: server.refer(str(variable)) for scheme, variable in variables.items()}
    tables: dict[str, Json] = {"security": schemes, "headers": server.members.get("headers")}
    joined: JsonObject = {
        key: {**object_in(known.get(key)), **each} for key, each in tables.items() if isinstance(each, dict) and each
    }
    server.members = {**known, **options, **joined}
    return server


def _add_service(service: ImportedServer, target: ImportTarget) -> None:
    """Read the document of a service, print what it brings, and add it to the settings."""
    trial = try_service(service, target.file, target.credentials.values, target.timeout_s)
    known = target.sources.get(service.name)
    changed = {key: each for key, each in service.members.items() if (known or {}).get(key) != each}
    text = target.toml([service], OPENAPI, _ADDED)
    is_written = trial.fault is None and not target.dry_run
    is_added, is_changed = is_written and known is None, is_written and known is not None and bool(changed)
    if is_added:
        append_tables(target.file, text)
    elif is_changed:
        change_table(target.file, f"[sources.{service.name}]", changed)
        if credentials := target.credential_tables([service]):
            append_tables(target.file, "\n".join(credentials))
    unset = {variable: name for name, variable in service.credentials.items() if not environment([variable])}
    shown: JsonObject = {"toml": text} if target.dry_run else {}
    written: JsonObject = {"file": str(target.file), "added": is_added, "changed": is_changed, "set": [*unset]}
    print_json({**trial.as_json(service.name), **written, **shown})
    print_trial(service, trial)
    if trial.fault is not None:
        raise typer.Exit(FAULTY)
    if target.dry_run:
        print_text(f"\nwould be {'added to' if known is None else 'changed in'} {target.file}:\n\n{text}")
    else:
        verb = "added" if is_added else "changed" if is_changed else "nothing changed:"
        done(f"{verb} {service.name} {'to' if is_added else 'in'} {target.file}")
    for variable, name in unset.items():
        sent = trial.sent_as(name, variable)
        advice = f"set the variable {variable} before you use it"
        print_text(advice + (f"; requests have {sent!r}" if sent else ""), "yellow")


def _split(option: str, pairs: Iterable[str], mark: str) -> JsonObject:
    found: JsonObject = {}
    for each in pairs:
        key, is_pair, value = each.partition(mark)
        if not is_pair or not key:
            raise ConfigError(f"{option} must be written NAME{mark}VALUE, got {key!r}; add the {mark!r}")
        found[key.strip()] = value.strip()
    return found


def _read_clients(source: str | None, target: ImportTarget) -> list[ClientServer]:
    """Return the servers of a file or of clients; a file that cannot be read stands for one that failed.

    Raises:
        ConfigError: there is no such file, or the file that the user names cannot be read.
    """
    here = Path.cwd()
    known = client_files(here, sys.platform)
    clients = sorted({each.client for each in known})
    is_client = source is None or source in clients
    if is_client:
        looked = [each for each in known if source in (None, each.client)]
        files = [each for each in looked if each.path.is_file()]
        if not files:
            places = "".join(f"\n  {each.path}" for each in looked)
            raise ConfigError(f"no settings of MCP clients were found; name a file. These places have none:{places}")
    elif source is not None and Path(source).is_file():
        files = [named_file(Path(source).resolve(), known)]
    else:
        raise ConfigError(f"there is no file and no client {source!r}; {suggestion(str(source), clients)}")
    servers: list[ClientServer] = []
    for each in files:
        try:
            servers += read_servers(each, each.folder or here, target.is_own)
        except ConfigError as error:
            if not is_client:
                raise
            servers.append(ClientServer(each.path.name, each, {}, state="failed", reason=str(error)))
    return servers


def _translate(servers: Sequence[ClientServer], target: ImportTarget) -> None:
    """Make each server as it would be written, or note why it cannot be."""
    known = {_identity(members): name for name, members in target.sources.items()}
    used = {*target.sources, RESERVED_NAME}
    for each in servers:
        if each.reason:
            continue
        try:
            server = ImportedServer(each, source_name(each.name, used), target.credentials)
            if isinstance(folder := server.members.get("cwd"), str):
                server.members["cwd"] = _relative(folder, target.file)
            read_server(server.name, server.members)
        except ConfigError as error:
            each.state, each.reason = "failed", str(error)
            continue
        each.server = server
        if (same := known.get(_identity(server.members))) is not None:
            server.name, each.reason = same, f"the source {same!r} is the same server"
            continue
        known[_identity(server.members)] = server.name
        used.add(server.name)
        each.state, each.reason = "untried", each.note


def _identity(members: JsonObject) -> str:
    """Return what two entries of one server have in common."""
    return repr([members.get(key) for key in ("command", "args", "url", "env", "headers")])


def _relative(path: str, file: Path) -> str:
    """Return a path within the folder of the settings file relative to it, and any other path unchanged."""
    base = file.resolve().parent
    return os.path.relpath(path, base) if Path(path).is_relative_to(base) else path


async def _try_all(rows: Sequence[ClientServer], target: ImportTarget) -> None:
    """Start the servers, some at a time, and record what they offer."""
    logging.getLogger("agenttool").addHandler(logging.NullHandler())  # the table has the faults
    limit = asyncio.Semaphore(TRIED_AT_A_TIME)

    async def tried(row: ClientServer, server: ImportedServer, bar: WorkBar) -> None:
        async with limit:
            await _try(row, server, target)
            bar.advance()

    with WorkBar(len(rows)) as bar:
        async with asyncio.TaskGroup() as tasks:
            for row in rows:
                if row.server is not None:
                    tasks.create_task(tried(row, row.server, bar))


async def _try(row: ClientServer, server: ImportedServer, target: ImportTarget) -> None:
    row.state = "failed"
    if server.missing:
        row.reason = f"the variable {', '.join(dict.fromkeys(server.missing))} is not set; set it, and try again"
        return
    values = {name: target.credentials.values[name] for name in server.credentials if name in target.credentials.values}
    try:
        settings = read_server(server.name, server.members, target.file.resolve().parent)
        env = {**settings.env, **server.trial_env}
        trial = replace(settings, start_timeout_s=target.timeout_s, env=env, new_tools="show")
        row.reason = await _connect(row, trial, values)
    except AgentToolError as error:
        row.reason = str(error)
    for value in (*values.values(), *server.trial_env.values()):
        row.reason = row.reason.replace(value, "[redacted]")
    row.state = "failed" if row.reason else "ready"
    review = f"run `agenttool sources review {server.name}`: the client uses only some tools of the server"
    row.reason = row.reason or "; ".join(filter(None, (row.note, review if server.allowed is not None else "")))


async def _connect(row: ClientServer, settings: McpServer, values: dict[str, str]) -> str:
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
    if row.server is not None and row.server.allowed is not None:
        mappings = (mapping for each in declared for mapping in each.external_mappings or ())
        native = (each.tool_name for each in mappings if isinstance(each, McpMapping) and each.tool_name is not None)
        others = (each for each in native if each not in (row.server.allowed or ()))
        row.server.denied = tuple(dict.fromkeys((*row.server.denied, *others)))
    row.tools, row.tokens = len(declared), sum(map(estimate_tokens, declared))
    return ""


def _print_programs(rows: Iterable[ClientServer]) -> None:
    """Print what a trial starts or contacts, and which secrets it gets."""
    servers = ((each.name, each.server) for each in rows if each.server is not None)
    table = ((name, _program(server), ", ".join(server.credentials.values())) for name, server in servers)
    print_blocks([plain_table("server", "command or url", "secrets", rows=table)])


def _program(server: ImportedServer) -> str:
    args = server.members.get("args")
    words = [server.members.get("command", server.members.get("url")), *(args if isinstance(args, list) else ())]
    return one_line(" ".join(map(str, words)))


def _print_rows(rows: Sequence[ClientServer]) -> None:
    cells = (
        (
            each.name if each.server is None else each.server.name,
            each.transport,
            *("" if number is None else f"{number:,}" for number in (each.tools, each.tokens)),
            each.state,
            one_line(each.reason),
        )
        for each in rows
    )
    columns = ("server", fixed("transport"), figures("tools"), figures("tokens"), fixed("state"), "reason")
    print_blocks([plain_table(*columns, rows=cells)])


def _count(servers: Sequence[object]) -> str:
    return "1 server" if len(servers) == 1 else f"{len(servers)} servers"


def _report(rows: Sequence[ClientServer], chosen: Sequence[ImportedServer], target: ImportTarget, text: str) -> None:
    """Print what was written, or would be, and which variables must be set."""
    needed = {variable: each.name for each in chosen for variable in (*each.credentials.values(), *each.trial_env)}
    unset: list[Json] = [each for each in needed if not environment([each])]
    names: list[Json] = [each.name for each in chosen]
    servers: list[Json] = [each.as_json() for each in rows]
    shown: JsonObject = {"toml": text} if text else {}
    print_json({"servers": servers, "file": str(target.file), "added": [] if text else names, "set": unset, **shown})
    if text:
        print_text(f"\nwould be added to {target.file}:\n\n{text}")
    elif chosen:
        done(f"added {_count(chosen)} to {target.file}")
    else:
        why = "; --no-try adds servers without a trial" if rows else ": the settings list no MCP servers"
        print_text(f"nothing was added{why}", "yellow")
    if unset:
        print_text("secrets are not copied; before you use these servers, set:", "yellow")
        for each in unset:
            print_text(f"  {each}  (for {needed[str(each)]})")

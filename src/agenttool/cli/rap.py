"""`agenttool rap`: the Reactive Agent Protocol from the terminal."""

import asyncio
import importlib
import logging
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from agenttool.cli.findings import printable
from agenttool.cli.refusing import refuse
from agenttool.cli.serving import Serving, Stop, address_of, bind, is_beyond, run_until_stopped, stoppable, warn
from agenttool.codec import json_bytes
from agenttool.config import environment
from agenttool.errors import ConfigError
from agenttool.rap import Bearer, Credential, Provider, Signed
from agenttool.rap.checking import Finding, looking_at
from agenttool.records import Json

app = typer.Typer(add_completion=False)

BROKEN, NOT_SEEN = 1, 3
"""How a look at a provider ends that has not seen every promise kept; 2 is for a command that cannot be run."""


@app.callback()
def rap() -> None:
    """Serve and use tools over the Reactive Agent Protocol; each command takes --json."""


@app.command()
def serve(
    place: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="Where the provider is")],
    *,
    host: Annotated[str, typer.Option(help="The address to listen at")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at; 0 for any that is free")] = 8123,
    store: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep calls there")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help='Print one line such as {"port": 8123} once it takes calls, and nothing else')
    ] = False,
) -> None:
    """Serve a provider's tools over the Reactive Agent Protocol

    What was accepted is kept in the store, so that a server that was stopped or
    killed goes on where it was when it is started again. SIGTERM or Ctrl-C stops it,
    with status 0; a function that does not let itself be stopped is waited for for
    25 seconds at most, and then the status is 1.
    """  # noqa: D415 -- as in the table of commands
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        provider = load_provider(place)
        if store is not None:
            provider.keep_in(store)
        run_until_stopped(lambda stop: _serve(stop, provider, host, port, as_json=as_json))
    except ConfigError as error:
        refuse(error)


@app.command()
def check(
    url: Annotated[str, typer.Argument(metavar="URL", help="The base URL of a provider")],
    *,
    token_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds the bearer token to show")
    ] = None,
    secret_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds the secret to sign with")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each promise")] = False,
) -> None:
    """Look at a provider from outside: does it do what runtimes count on

    In whatever language it is written. No tool of it is run: it is asked for
    operations that it has not, with arguments that fit nothing, and told of threads
    that nobody knows. It must be able to post to this machine.

    Exits with 0 if every promise is kept, 1 if one is broken, and 3 if none is, but
    some could not be looked at: nobody answered, say, or the token is not known.
    """  # noqa: D415 -- as in the table of commands
    try:
        found = asyncio.run(_looked_at(url, _credential(token_env, secret_env)))
    except ConfigError as error:
        refuse(error)
    for each in found:
        _say(each, as_json=as_json)
    seen = {each.is_kept for each in found}
    if False in seen or None in seen:
        raise typer.Exit(BROKEN if False in seen else NOT_SEEN)


@app.command()
def describe(
    place: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="Where the provider is")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the page as one JSON object")] = False,
) -> None:
    """Write what a toolset and each of its tools mean for security

    A page of Markdown for whoever decides whether to call them, or to offer them:
    who may call, where it posts, what is kept, and what each tool may do.
    """  # noqa: D415 -- as in the table of commands
    try:
        provider = load_provider(place)
    except ConfigError as error:
        refuse(error)
    page = "\n".join(map(printable, provider.security.split("\n")))
    typer.echo(json_bytes({"toolset": provider.name, "page": page}).decode() if as_json else page, nl=as_json)


def _credential(token_env: str | None, secret_env: str | None) -> Credential | None:
    if token_env is not None and secret_env is not None:
        raise ConfigError("--token-env shows a token, and --secret-env signs instead; leave one of them out")
    if token_env is not None:
        return Bearer(_variable("--token-env", token_env))
    return None if secret_env is None else Signed(_variable("--secret-env", secret_env))


def _variable(option: str, name: str) -> str:
    value = environment([name]).get(name)
    if value is None:
        raise ConfigError(f"{option} names {name!r}, which is not set; set it, or leave it out")
    return value


async def _looked_at(url: str, credential: Credential | None) -> list[Finding]:
    async with looking_at(url, credential) as look:
        return await look.findings()


_SIGNS = {True: "[green]kept[/]    ", False: "[red]broken[/]  ", None: "[yellow]not seen[/]"}


def _say(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        told = finding.told or None
        rules: list[Json] = [*finding.rules]
        typer.echo(
            json_bytes({"promise": finding.promise, "is_kept": finding.is_kept, "told": told, "rules": rules}).decode()
        )
        return
    console = Console(highlight=False)
    rules_shown = " ".join(finding.rules)
    console.print(
        f"{_SIGNS[finding.is_kept]}  {escape(printable(finding.promise))}  [dim]{rules_shown}[/]", soft_wrap=True
    )
    if finding.told:
        console.print(f"            {escape(printable(finding.told))}", soft_wrap=True)


def load_provider(place: str) -> Provider:
    """Import the module and take its provider.

    Raises:
        ConfigError: there is no such module or provider, or importing it failed.
    """
    sys.path.insert(0, str(Path.cwd()))
    name, _, attribute = place.partition(":")
    try:
        module = importlib.import_module(name)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise ConfigError(f"module {name!r} cannot be imported: {told}; correct it") from error
    provider: object = getattr(module, attribute or "provider", None)
    if not isinstance(provider, Provider):
        raise ConfigError(f"{place!r} names no Provider; write MODULE:NAME of one")
    return provider


async def _serve(stop: Stop, provider: Provider, host: str, port: int, *, as_json: bool) -> None:
    async with stoppable(stop), provider.running():
        with bind(host, port) as listening:
            for each in _beyond(provider) if is_beyond(listening) else ():
                warn(each)
            stop.server = Serving(provider, lambda: _tell(provider, listening, as_json=as_json))
            await stop.server.serve(sockets=[listening])


def _beyond(provider: Provider) -> list[str]:
    """Say what it means that others reach this port, if that may not be meant."""
    told: list[str] = []
    if provider.is_for_all:
        told.append("whoever reaches this port may call its tools: give the provider auth=, or listen on 127.0.0.1")
    if provider.url is None:
        told.append(
            "runtimes are told to call at the host that they asked; behind a proxy, give the provider its url= instead"
        )
    return told


def _tell(provider: Provider, listening: socket.socket, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_bytes({"port": listening.getsockname()[1]}).decode())
        return
    tools = ", ".join(tool.name for tool in provider.definitions)
    console = Console(highlight=False)
    console.print(f"[bold]{provider.name}[/] serves {tools}", soft_wrap=True)
    where = provider.url or address_of(listening)
    console.print(f"base URL [cyan]{escape(where)}[/]   calls are kept in {provider.store}", soft_wrap=True)
    console.print("[dim]Ctrl-C stops it; what waits goes on when it is started again[/]")

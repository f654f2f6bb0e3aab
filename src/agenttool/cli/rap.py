"""`agenttool rap`: serve, check and describe providers of the Reactive Agent Protocol."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from agenttool.adapters.python.source import import_module_from
from agenttool.adapters.rap.credentials import Bearer, Credential, Signed
from agenttool.cli.format import print_json
from agenttool.cli.http_server import bind, is_public, local_url, run_server
from agenttool.cli.options import option, read_variable, required
from agenttool.cli.output import print_blocks, print_text, warn
from agenttool.errors import ConfigError
from agenttool.history.printable import printable
from agenttool.rap.check import CheckFinding, open_check
from agenttool.rap.provider import Provider

app = typer.Typer(add_completion=False)

NOT_MET, NOT_CHECKED = 1, 3
"""Exit codes of a check in which an expectation is not met, or some could not be checked; 2 is a usage error."""

_MARKS = {True: ("met        ", "green"), False: ("not met    ", "red"), None: ("not checked", "yellow")}

ProviderArgument = Annotated[str, required("MODULE:NAME", "The provider")]


@app.callback()
def rap() -> None:
    """Serve and use tools over the Reactive Agent Protocol; each command takes --json."""


@app.command()
def serve(
    place: ProviderArgument,
    *,
    host: str = option("--host", "Address to listen on", default="127.0.0.1"),
    port: int = option("--port", "Port to listen on; 0 for any free port", low=0, high=65535, default=8123),
    store: Path | None = option("--store FILE", "Store calls there"),
) -> None:
    """Serve a provider's tools over the Reactive Agent Protocol.

    Accepted calls are stored, so that a server that was stopped or killed continues
    them at the next start. SIGTERM or Ctrl-C stops it with status 0; if a function
    cannot be stopped within 25 seconds, the status is 1.
    """
    provider = load_provider(place)
    if store is not None:
        provider.settings.store = store
    with bind(host, port) as listening:
        if is_public(listening):
            _warn_about_access(provider)
        run_server(listening, _running(provider), lambda: _announce(provider, listening))


@asynccontextmanager
async def _running(provider: Provider) -> AsyncGenerator[Provider]:
    async with provider.running():
        yield provider


@app.command()
def check(
    url: Annotated[str, required("URL", "The base URL of a provider")],
    *,
    token_env: str | None = option("--token-env NAME", "Environment variable that holds the bearer token"),
    secret_env: str | None = option("--secret-env NAME", "Environment variable that holds the secret for signatures"),
) -> None:
    """Check from outside whether a provider behaves as runtimes expect.

    The provider may be written in any language. No tool runs: the check calls
    operations that do not exist, sends arguments that fit no schema, and names
    unknown threads. The provider must be able to post to this machine.

    Exits with 0 if every expectation is met, 1 if one is not, and 3 if some could
    not be checked, for example because no response came or the token is not valid.
    """

    async def findings() -> list[CheckFinding]:
        async with open_check(url, _credential(token_env, secret_env)) as look:
            return await look.findings()

    found = asyncio.run(findings())
    for each in found:
        _print_finding(each)
    outcomes = {each.is_met for each in found}
    if False in outcomes or None in outcomes:
        raise typer.Exit(NOT_MET if False in outcomes else NOT_CHECKED)


@app.command()
def describe(place: ProviderArgument) -> None:
    """Describe what a toolset and each of its tools mean for security.

    Prints a page of Markdown for people who decide whether to call or offer the
    tools: who may call them, where it posts, what it stores, and what each may do.
    """
    provider = load_provider(place)
    page = printable(provider.security, keep="\n")
    print_json({"toolset": provider.settings.name, "page": page})
    print_text(page.rstrip("\n"))


def _credential(token_env: str | None, secret_env: str | None) -> Credential | None:
    if token_env is not None and secret_env is not None:
        raise ConfigError("--token-env and --secret-env exclude each other; leave one of them out")
    if token_env is not None:
        return Bearer(read_variable("--token-env", token_env))
    return None if secret_env is None else Signed(read_variable("--secret-env", secret_env))


def _print_finding(finding: CheckFinding) -> None:
    print_json({**asdict(finding), "detail": finding.detail or None})
    rules = " ".join(finding.rules)
    line = Text.assemble(_MARKS[finding.is_met], f"  {printable(finding.expectation)}  ", (rules, "dim"))
    print_blocks([line, *([f"             {finding.detail}"] if finding.detail else [])])


def load_provider(place: str) -> Provider:
    """Return the provider at MODULE:NAME; without a name, the module's `provider`.

    Raises:
        ConfigError: there is no such module or provider, or importing it fails.
    """
    name, _, attribute = place.partition(":")
    provider: object = getattr(import_module_from(name), attribute or "provider", None)
    if not isinstance(provider, Provider):
        raise ConfigError(f"{place!r} is not a Provider; write MODULE:NAME of one")
    return provider


def _warn_about_access(provider: Provider) -> None:
    """Warn about a provider that other machines reach and that checks no credential, or has no URL."""
    if provider.settings.admits is None:
        warn("every client that reaches this port may call its tools: set auth= of the provider, or use 127.0.0.1")
    if provider.settings.url is None:
        warn("runtimes call the host that they first asked; behind a proxy, set url= of the provider instead")


def _announce(provider: Provider, listening: socket.socket) -> None:
    print_json({"port": listening.getsockname()[1]})
    settings, tools = provider.settings, ", ".join(tool.name for tool in provider.definitions)
    print_text(f"{settings.name} serves {tools}")
    print_text(f"base URL {settings.url or local_url(listening)}   calls are stored in {settings.store}")
    print_text("Ctrl-C stops it; waiting calls continue at the next start", "dim")

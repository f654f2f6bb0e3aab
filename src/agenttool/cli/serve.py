"""`agenttool serve`: one port for callbacks, health and status."""

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agenttool.adapters.rap.addresses import PATH
from agenttool.adapters.rap.credentials import Bearer
from agenttool.assemble import Runtime
from agenttool.cli.loading import load_tools, settings_file, store_place
from agenttool.cli.refusing import refuse
from agenttool.cli.serving import (
    Serving,
    Stop,
    address_of,
    base_url,
    bind,
    is_beyond,
    is_everywhere,
    leads_past,
    run_until_stopped,
    stoppable,
    warn,
)
from agenttool.codec import json_bytes
from agenttool.config import Config, ServerSetting, environment, read_config
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.server.app import app_of

app = typer.Typer(add_completion=False)

_EMBEDDED = "agenttool.db"
"""Whoever waits for days is kept on disk, even where nobody said where."""


@app.command()
def serve(  # noqa: PLR0913 -- one for each word of the command
    *,
    settings: Annotated[
        Path | None, typer.Option(help="Settings with sources, rules and a store; agenttool.toml if it lies here")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where calls are kept; as settings say, or agenttool.db here")
    ] = None,
    places: Annotated[
        list[str] | None, typer.Option("--from", metavar="MODULE[:NAME]", help="Also offer the tools of a module")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; 127.0.0.1 unless settings say more")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any that is free")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Under which URL tool servers reach this one")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON once it serves")] = False,
) -> None:
    """Serve one runtime: where tools call back, and a page of what waits

    SIGTERM or Ctrl-C stops it: requests under way are answered, and what waits is
    left to the next one, which is to be started with the same store and address. It
    exits with 0 then, with 1 if something would not be stopped for 25 seconds, and
    with 2 if it cannot serve, and says why.
    """  # noqa: D415 -- as in the table of commands
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        chosen = settings_file(settings)
        config = Config() if chosen is None else read_config(chosen)
        said = config.server or ServerSetting()
        tools = load_tools(places) if places else []
        kept = store_place(store or (_EMBEDDED if config.store is None else None))
        wanted, admits = base_url(url or said.url), _admitting(said.token_env)
        with bind(host or said.host, said.port if port is None else port) as listening:
            address = address_of(listening)
            reached = wanted or address
            if is_beyond(listening):
                warn(_beyond(listening, wanted, address))
            if wanted is not None and leads_past(wanted, listening):
                warn(
                    f"tools on this machine call back at {wanted}, and this serves {address}: give both the same port,"
                    " unless something there passes on what comes"
                )

            def opened() -> Runtime:
                return Runtime.open(config=chosen, store=kept, tools=tools, callback_url=reached)

            served = _Served(opened, listening, lambda: _tell(address, reached, as_json=as_json), admits)
            run_until_stopped(served.serve)
    except (ConfigError, RecordError, StoreError) as error:
        refuse(error)


def _admitting(token_env: str | None) -> Bearer | None:
    """Give what tells those apart who may ask, if the settings want that."""
    if token_env is None:
        return None
    token = environment([token_env]).get(token_env)
    if token is None:
        raise ConfigError(f"token_env of [server] names {token_env!r}, which is not set; set it, or take it out")
    return Bearer(token)


@dataclass(frozen=True, slots=True)
class _Served:
    """What is served where, to whom, and what is said once it is."""

    opened: Callable[[], Runtime]
    listening: socket.socket
    announce: Callable[[], None]
    admits: Bearer | None

    async def serve(self, stop: Stop) -> None:
        async with stoppable(stop), self.opened() as runtime:
            await _tell_moved(runtime)
            stop.server = Serving(app_of(runtime, admits=self.admits), self.announce)
            await stop.server.serve(sockets=[self.listening])


async def _tell_moved(runtime: Runtime) -> None:
    """Warn if something waits for answers that go to an address of before."""
    rap = runtime.rap
    if rap is None or rap.moved_from is None:
        return
    if await runtime.waiting(limit=1) or await rap.subscriptions.of(limit=1):
        warn(
            f"what waits was sent when tools called back at {rap.moved_from}, and its answers go there: let that"
            " address lead here as well until they have come, or serve there again"
        )


def _beyond(listening: socket.socket, wanted: str | None, address: str) -> str:
    """Say what it means that others reach this port, and what is still to be done."""
    has_proxy = wanted is not None and wanted.startswith("https://")
    told = (
        "others than this machine reach this port, without TLS: it takes callbacks of them, each by the sealed URL of"
        " its call, and tells them whether it is healthy; "
        + (
            "let only your proxy reach it"
            if has_proxy
            else "put a proxy with TLS before it, and let only that reach it"
        )
    )
    if is_everywhere(listening) and wanted is None:
        told += f". Tools are told to call back at {address}, which leads here from this machine only: set --url"
    return told


def _tell(address: str, reached: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_bytes({"url": address, "callback_url": reached}).decode())
        return
    console = Console(stderr=True, highlight=False)
    console.print(f"serving at {address}; tools call back at {reached}{PATH}", soft_wrap=True, markup=False)
    hint = f"what waits: {address}/status   stop: Ctrl-C, and what waits is left to the next one"
    console.print(hint, style="dim", soft_wrap=True, markup=False)

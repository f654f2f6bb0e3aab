"""`agenttool serve`: one port for callbacks, health and status."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
import uvicorn
from rich.console import Console

from agenttool.adapters.rap.patience import Patient
from agenttool.assemble import Runtime
from agenttool.cli.loading import load_tools, settings_file, store_place
from agenttool.cli.refusing import refuse
from agenttool.codec import json_bytes
from agenttool.config import Config, ServerSetting, read_config
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.server.app import make_app

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
    """Serve one runtime: where tools call back, and a page of what waits"""  # noqa: D415 -- as in the table of commands
    try:
        chosen = settings_file(settings)
        config = Config() if chosen is None else read_config(chosen)
        said = config.server or ServerSetting()
        tools = load_tools(places) if places else []
        listening = _bind(host or said.host, said.port if port is None else port)
        address = f"http://{_shown(listening)}"
        reached = url or said.url or address

        kept = store_place(store or (_EMBEDDED if config.store is None else None))

        def opened() -> Runtime:
            return Runtime.open(config=chosen, store=kept, tools=tools, callback_url=reached)

        told = uvicorn.Config(
            make_app(opened), log_level="warning", access_log=False, lifespan="on", ws="none", http=Patient
        )
        server = _Announcing(told, lambda: _tell(address, reached, as_json=as_json))
        server.run(sockets=[listening])
    except (ConfigError, RecordError, StoreError) as error:
        refuse(error)
    if not server.started:
        raise typer.Exit(1)


class _Announcing(uvicorn.Server):
    """Says where it is once it is there."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        """Take what to serve, and what to do once it is served."""
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started:
            self._announce()


def _bind(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server((host, port), backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}; use another --port") from error
    # An answer goes out in two pieces; without this the second would wait until the first is acknowledged, 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _shown(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"{host}:{port}"


def _tell(address: str, reached: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_bytes({"url": address, "callback_url": reached}).decode())
        return
    console = Console(stderr=True, highlight=False)
    console.print(f"serving at {address}; tools call back at {reached}/rap/callbacks", soft_wrap=True)
    console.print("what waits: /status   stop: Ctrl-C, and what waits is left to the next one", style="dim")

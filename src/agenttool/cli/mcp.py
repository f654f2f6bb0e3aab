"""`agenttool mcp`: serve the tools to one MCP client over standard input and output."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from agenttool.adapters.python.source import load_tools
from agenttool.cli.options import STORE_FILE, SettingsOption, StoreOptions, ToolsOption, find_settings
from agenttool.errors import ConfigError
from agenttool.mcp.server import McpOptions
from agenttool.mcp.stdio import serve_stdio
from agenttool.runtime import Runtime


def mcp(  # noqa: PLR0913 -- one for each option of the command
    *,
    settings: SettingsOption = None,
    store: Annotated[
        str | None, typer.Option(metavar="FILE", help=f"File of the store; default: as settings say, or {STORE_FILE}")
    ] = None,
    places: ToolsOption = None,
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who makes the calls, for rules and the journal")
    ] = None,
    ask_in_client: Annotated[
        bool, typer.Option(help="Let the user of the client answer approvals there, if it can ask")
    ] = True,
    directory: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Work in this folder; clients start programs in others")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an error that prevents the start as JSON")] = False,
) -> None:
    """Serve the tools to one MCP client over its standard streams.

    Name this command in the settings of the client. It ends when the client does;
    calls that wait for an approval are left to the next process on the store.
    """
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise ConfigError(f"--directory {str(directory)!r} cannot be used: {error.strerror}; correct it") from error
    tools = load_tools(places or [])
    options = StoreOptions(store, settings).or_default()
    served = McpOptions(
        actor=actor, answer_command=f"agenttool approvals{options.arguments}", asks_client=ask_in_client
    )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")

    async def serve() -> None:
        config = find_settings(settings)
        async with Runtime.open(config=config, store=options.store, tools=tools, approve="wait") as runtime:
            await serve_stdio(runtime, served)

    asyncio.run(serve())

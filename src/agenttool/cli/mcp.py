"""`agenttool mcp`: serve the tools to one MCP client over standard input and output."""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path

from agenttool.cli.format import print_json
from agenttool.cli.options import StoreToolOptions, flag, option
from agenttool.cli.output import plain_table, print_blocks
from agenttool.config import load_config
from agenttool.config.program import program_name
from agenttool.errors import ConfigError
from agenttool.mcp.listing import ToolList, ToolLister
from agenttool.mcp.profiles import McpOptions, approvals_url, check_profiles, read_profiles
from agenttool.mcp.stdio import serve_stdio
from agenttool.runtime import Runtime


def mcp(
    *,
    options: StoreToolOptions,
    actor: str | None = option("--actor NAME", "Who makes the calls, for rules and the journal"),
    profile: str = option("--profile NAME", "Serve the tools of the table [mcp.NAME] in the settings", default=""),
    ask_in_client: bool = option(
        "--ask-in-client/--no-ask-in-client",
        "Ask the user of the client for approvals, if the client can ask",
        default=True,
    ),
    directory: Path | None = option(
        "--directory FOLDER", "Work in this folder; clients start programs in a folder of their own"
    ),
    names: bool = flag("--names", "Print the names that clients see and the tools behind them, and exit"),
) -> None:
    """Serve the tools to one MCP client over stdio.

    Name this command in the settings of the client. It ends when the client does;
    calls that wait for an approval are left to the next process on the store.
    """
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise ConfigError(f"--directory {str(directory)!r} cannot be used: {error.strerror}; correct it") from error
    tools, options = options.load_tools(), options.for_use()
    loaded = load_config(options.config)
    base = McpOptions(
        actor=actor,
        answer_command=f"{program_name()} approvals{options.for_any_folder.arguments}",
        approvals_url=approvals_url(loaded.server and loaded.server.url),
        asks_client=ask_in_client,
    )
    if profile:
        loaded.check_profile(profile)
    served = read_profiles(loaded, base)[profile]
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")

    async def serve() -> None:
        runtime = Runtime.open(config=options.config, store=options.store, tools=tools, approve="wait")
        async with AsyncExitStack() as stack:

            async def start() -> None:
                await stack.enter_async_context(runtime)
                await check_profiles(runtime, loaded)

            if names:
                await start()
                _print_names(await ToolLister(runtime, served.role).current())
            else:
                await serve_stdio(runtime, served, start)

    asyncio.run(serve())


def _print_names(tools: ToolList) -> None:
    """Print the name of each tool for clients, its qualified name, and whether a search finds it."""
    rows = [(name, tool.qualified_name, tool.is_deferred) for name, tool in sorted(tools.by_name.items())]
    print_json({"tools": [{"name": name, "tool": tool, "is_deferred": late} for name, tool, late in rows]})
    shown = ((name, tool, "(found by tool_search)" if is_deferred else "") for name, tool, is_deferred in rows)
    print_blocks([plain_table("name", "tool", "", rows=shown)])

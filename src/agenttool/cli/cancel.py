"""`agenttool cancel`: cancel an open call of any process on a store."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from agenttool.adapters.python.source import Tool, load_tools
from agenttool.cli.format import print_json, print_result
from agenttool.cli.options import SettingsOption, StoreOptions, ToolsOption, UrlOption, find_settings, server_url
from agenttool.cli.output import print_error, print_text
from agenttool.cli.prompt import BY_HELP
from agenttool.codec import to_json
from agenttool.config.program import program_name
from agenttool.history.recorded_call import find_call
from agenttool.journal.steps import STEPS
from agenttool.records import InvocationId, ResultStatus, ToolResult
from agenttool.runtime import Runtime
from agenttool.stores.sqlite.reader import SqliteReader

NOT_CANCELED = 1
"""Exit code: the call had ended, or did not stop in time."""

TIMEOUT_S = 15.0
"""How long to wait for the end of the call; a tool has ten seconds to stop."""

_POLL_S = 0.05


def cancel(  # noqa: PLR0913 -- one for each option of the command
    call: Annotated[
        str, typer.Argument(metavar="CALL", help="Beginning or end of the id of the call, as `agenttool log` prints it")
    ],
    *,
    store: Annotated[
        str | None, typer.Option(metavar="FILE", help="Store file; default: the one in the settings")
    ] = None,
    settings: SettingsOption = None,
    places: ToolsOption = None,
    by: Annotated[str | None, typer.Option(metavar="NAME", help=BY_HELP)] = None,
    url: UrlOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else")] = False,
) -> None:
    """Cancel an open call, whichever process runs it.

    The process of the call is asked to cancel it. A call whose process is gone is ended at
    once. The command waits for the result. It exits with 0 if the call was canceled, and
    with 1 if it was not.
    """
    server = server_url(url, **{"from": places}, store=store, settings=settings, by=by)
    if server is not None:
        from agenttool.cli.remote import cancel_call  # noqa: PLC0415 -- it loads the HTTP client

        if not cancel_call(server, call, as_json=as_json):
            raise typer.Exit(NOT_CANCELED)
        return
    options = StoreOptions(store, settings).for_use()
    with SqliteReader.open(options.existing_file(), steps=STEPS) as reader:
        invocation_id = find_call(reader, call).invocation.invocation_id
    command = CancelCommand(invocation_id, options, load_tools(places or []), by)
    result, problem = asyncio.run(command.run())
    if result is not None:
        print_json(to_json(result)) if as_json else print_result(result)
    if problem is not None:
        print_error("not_canceled", f"{invocation_id}: {problem}")
        raise typer.Exit(NOT_CANCELED)
    if not as_json:
        print_text(Console(stderr=True), f"canceled {invocation_id}", "green")


class CancelCommand:
    """The cancellation of one call."""

    def __init__(self, call: InvocationId, options: StoreOptions, tools: list[Tool], by: str | None) -> None:
        """Take the call, its store, the tools that are needed to withdraw a deferred call, and the claimed name."""
        self._by = by
        self._call = call
        self._options = options
        self._tools = tools

    async def run(self) -> tuple[ToolResult | None, str | None]:
        """Cancel the call; return its result, if it has one, and why it was not canceled."""
        config = find_settings(self._options.settings)
        async with Runtime.open(config=config, store=self._options.store, tools=self._tools, approve="wait") as rt:
            if (ended := await rt.journal.result(self._call)) is not None:
                return ended, f"it had ended before ({ended.status.value})"
            is_requested = await rt.cancel(self._call, by=self._by)
            if not is_requested and await rt.journal.result(self._call) is None:
                return None, "its tool is not known here, which must tell its server; name it with --from or --settings"
            result = await self._wait_for_result(rt)
        if result is None:
            show = f"{program_name()} show {self._call}{self._options.journal_arguments}"
            return None, f"its process was asked to cancel it, and it has not ended yet; see: {show}"
        is_canceled = result.status is ResultStatus.CANCELED
        return result, None if is_canceled else f"it ended otherwise ({result.status.value})"

    async def _wait_for_result(self, rt: Runtime) -> ToolResult | None:
        for _ in range(round(TIMEOUT_S / _POLL_S)):
            if (result := await rt.journal.result(self._call)) is not None:
                return result
            await asyncio.sleep(_POLL_S)
        return None

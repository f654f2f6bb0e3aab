"""`agenttool cancel`: cancel an open call of any process on a store."""

from typing import Annotated

import typer
from rich.console import Console

from agenttool import sync
from agenttool.adapters.python.source import Tool, load_tools
from agenttool.cli.format import print_json, print_result
from agenttool.cli.options import (
    ByOption,
    SettingsOption,
    StoreOption,
    StoreOptions,
    ToolsOption,
    UrlOption,
    server_url,
)
from agenttool.cli.output import print_error, print_text
from agenttool.codec import to_json
from agenttool.config import AUTO
from agenttool.config.program import program_name
from agenttool.history.recorded_call import find_call
from agenttool.journal.steps import STEPS
from agenttool.records import InvocationId, ResultStatus, ToolResult
from agenttool.stores.sqlite.reader import SqliteReader

NOT_CANCELED = 1
"""Exit code: the call had ended, or did not stop in time."""

TIMEOUT_S = 15.0
"""How long to wait for the end of the call; a tool has ten seconds to stop."""


def cancel(  # noqa: PLR0913 -- one for each option of the command
    call: Annotated[
        str, typer.Argument(metavar="CALL", help="Beginning or end of the id of the call, as `agenttool log` prints it")
    ],
    *,
    store: StoreOption = None,
    settings: SettingsOption = None,
    places: ToolsOption = None,
    by: ByOption = None,
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
        invocation_id, result, problem = _cancel_on(server, call)
    else:
        options = StoreOptions(store, settings).for_use()
        with SqliteReader.open(options.existing_file(), steps=STEPS) as reader:
            invocation_id = find_call(reader, call).invocation.invocation_id
        result, problem = _cancel(invocation_id, options, load_tools(places or []), by)
    if result is not None:
        print_json(to_json(result)) if as_json else print_result(result)
    if problem is not None:
        print_error("not_canceled", f"{invocation_id}: {problem}")
        raise typer.Exit(NOT_CANCELED)
    if not as_json:
        print_text(Console(stderr=True), f"canceled {invocation_id}", "green")


def _cancel(
    call: InvocationId, options: StoreOptions, tools: list[Tool], by: str | None
) -> tuple[ToolResult | None, str | None]:
    """Cancel a call; return its result, if it has one, and why it was not canceled.

    The tools are needed to withdraw a deferred call.
    """
    config = options.settings or AUTO
    with sync.open(config=config, store=options.store, tools=tools, approve="wait") as rt:
        if (ended := rt.journal.result(call)) is not None:
            return ended, f"it had ended before ({ended.status.value})"
        is_requested = rt.cancel(call, by=by)
        if not is_requested and rt.journal.result(call) is None:
            return None, "its tool is not known here, which must tell its server; name it with --from or --settings"
        result = rt.wait(call, TIMEOUT_S)
    if result is None:
        show = f"{program_name()} show {call}{options.journal_arguments}"
        return None, f"its process was asked to cancel it, and it has not ended yet; see: {show}"
    return result, _why_not_canceled(result)


def _cancel_on(server: str, part: str) -> tuple[str, ToolResult | None, str | None]:
    """Cancel a call of a server; return its id, its result, if it has one, and why it was not canceled."""
    from agenttool.cli.remote import find_call_id, open_server  # noqa: PLC0415 -- it loads the HTTP client

    with open_server(server) as gateway:
        call = find_call_id(gateway, part)
        gateway.cancel(call)
        try:
            result = gateway.wait(call, timeout_s=TIMEOUT_S)
        except TimeoutError:
            return call, None, "it was asked to end, but has not ended yet"
    return call, result, _why_not_canceled(result)


def _why_not_canceled(result: ToolResult) -> str | None:
    return None if result.status is ResultStatus.CANCELED else f"it ended otherwise ({result.status.value})"

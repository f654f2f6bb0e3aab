"""`agenttool cancel`: cancel an open call of any process on a store."""

from contextlib import suppress
from typing import Annotated

import typer

from agenttool import sync
from agenttool.cli.call_sources import ServerCalls, find_call, open_calls
from agenttool.cli.format import print_json, print_result
from agenttool.cli.options import CallOptions, required
from agenttool.cli.output import hint, is_json, print_error
from agenttool.codec import to_json
from agenttool.config.program import program_name
from agenttool.records import InvocationId, ResultStatus, ToolResult

NOT_CANCELED = 1
"""Exit code: the call had ended, or did not stop in time."""

TIMEOUT_S = 15.0
"""How long to wait for the end of the call; a tool has ten seconds to stop."""


def cancel(
    call: Annotated[str, required("CALL", "Beginning or end of the id of the call, as `agenttool log` prints it")],
    *,
    options: CallOptions,
) -> None:
    """Cancel an open call, whichever process runs it.

    The process of the call is asked to cancel it. A call whose process is gone is ended at
    once. The command waits for the result. It exits with 0 if the call was canceled, and
    with 1 if it was not.
    """
    options = options.resolved()
    options = options if options.url else options.for_use()
    with open_calls(options) as calls:
        invocation_id = InvocationId(find_call(calls, call))
        if isinstance(calls, ServerCalls):
            calls.client.cancel(invocation_id)
            result, problem = None, None
            with suppress(TimeoutError):
                result = calls.client.wait(invocation_id, timeout_s=TIMEOUT_S)
        else:
            result, problem = _cancel(invocation_id, options)
    if result is None and problem is None:
        show = f"{program_name()} show {invocation_id}{calls.arguments}"
        problem = f"its process was asked to cancel it, and it has not ended yet; see: {show}"
    elif result is not None and problem is None and result.status is not ResultStatus.CANCELED:
        problem = f"it ended otherwise ({result.status.value})"
    if result is not None:
        print_json(to_json(result))
        print_result(result)
    if problem is not None:
        print_error("not_canceled", f"{invocation_id}: {problem}")
        raise typer.Exit(NOT_CANCELED)
    if not is_json():
        hint(f"canceled {invocation_id}", "green")


def _cancel(call: InvocationId, options: CallOptions) -> tuple[ToolResult | None, str | None]:
    """Cancel a call; return its result, if it has one, and why it cannot be canceled.

    The tools are needed to withdraw a deferred call.
    """
    tools = options.load_tools()
    with sync.open(config=options.config, store=options.store, tools=tools, approve="wait") as rt:
        if (ended := rt.journal.result(call)) is not None:
            return ended, f"it had ended before ({ended.status.value})"
        is_requested = rt.cancel(call, by=options.by)
        if not is_requested and rt.journal.result(call) is None:
            return None, "its tool is not known here, which must tell its server; name it with --from or --settings"
        return rt.calls.get(call).result(TIMEOUT_S), None

"""How a call ended, for a person: its result, and what came of a request to stop."""

from rich.console import Console

from agenttool.cli.terminal import printable
from agenttool.codec import to_json
from agenttool.records import InvocationStatus, ToolInvocation, ToolResult
from agenttool.scheduler.drive import UNSUPPORTED


def show_result(result: ToolResult) -> None:
    """Print what a model reads of a result, without anything that would command the terminal."""
    console = Console()
    style = "red" if result.is_error else None
    for item in result.model_facing_content or ():
        text = printable(item.text) if item.text is not None else str(to_json(item))
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def what_stopped(invocation: ToolInvocation) -> str | None:
    """Say what came of a request to stop: it came before the tool ran, the tool heard it, or it did not."""
    asked = invocation.cancellation
    if asked is None:
        return None
    if invocation.status is not InvocationStatus.CANCELED:
        came_late = asked.message != UNSUPPORTED
        return "the tool had already ended" if came_late else "the tool could not be stopped, and came to its own end"
    started = any(step.status is InvocationStatus.RUNNING for step in invocation.status_transitions or ())
    if not started:
        return "canceled before anything had run"
    if asked.cancel_acknowledged is not None:
        return "the tool stopped where it was; what it had done until then is done"
    return "the tool did not stop in time and was left behind; what it started may still be going on"

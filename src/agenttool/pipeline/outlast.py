"""What must wait until the work that a tool left behind has ended."""

from collections.abc import Callable

from agenttool.pipeline.call import Call

LINGER_S = 60.0
"""For how long; after that a thread that hangs no longer keeps others from running."""


def outlast(call: Call, then: Callable[[], None]) -> None:
    """Do something now, or when the tool's thread that nobody could stop has ended at last."""
    ended = call.goes_on_until
    if ended is None or ended.done():
        then()
        return
    core, is_done = call.core, False

    def once(_: object = None) -> None:
        nonlocal is_done
        if not is_done:
            is_done = True
            core.deadlines.cancel(alarm)
            then()

    alarm = core.deadlines.arm(core.deadlines.now() + LINGER_S, once)
    ended.add_done_callback(once)

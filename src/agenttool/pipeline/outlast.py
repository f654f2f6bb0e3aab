"""Delay work until a thread that could not be stopped has ended."""

from collections.abc import Callable

from agenttool.pipeline.call import Call

LINGER_S = 60.0
"""The maximum delay, so that a hanging thread does not block other calls."""


def run_after_thread(call: Call, then: Callable[[], None]) -> None:
    """Call `then` once the thread of the tool has ended, or at once if there is none."""
    ended = call.thread_ended
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

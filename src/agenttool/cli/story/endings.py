"""Every way a call can end is known before the first call is made."""

from agenttool.cli.story.teller import Teller
from agenttool.records import OUTCOMES, ErrorClass, InvocationStatus, may_follow


def tell(teller: Teller) -> None:
    """Show the table of outcomes, and what the order of a call allows."""
    teller.chapter("Every ending is a result")
    teller.table(
        f"the {len(OUTCOMES)} ways a call can end",
        ("what happened", "the call", "its result", "done for sure?"),
        [
            (
                outcome.name,
                outcome.invocation_status.value,
                outcome.result_status.value,
                "yes" if outcome.effects_happened else "",
            )
            for outcome in OUTCOMES
        ],
    )
    told = {error for outcome in OUTCOMES for error in outcome.error_classes}
    teller.claim(f"all {len(ErrorClass)} classes of error have their ending", holds=told == set(ErrorClass))
    running, denied = InvocationStatus.RUNNING, InvocationStatus.DENIED
    teller.claim("a call that runs cannot be denied afterwards", holds=not may_follow(running, denied))
    teller.claim("nothing follows an end", holds=not any(may_follow(denied, each) for each in InvocationStatus))

"""How a call stands that has not ended: who has it in hand, and what brings its end."""

from agenttool.ports.later import LATE
from agenttool.records import JsonObject
from agenttool.stores.sqlite.holding import Holding

_TAKE_UP = "a process that has its tool takes it up, such as `agenttool approvals --from MODULE`"


def how_it_stands(held: Holding | None) -> str:
    """Say who has a call, and what it waits for."""
    if held is None:
        return "nobody has it in hand: look at `agenttool verify`"
    if held.is_answered:
        return "its answer is there; " + ("its process is about to hear it" if held.is_alive else _TAKE_UP)
    if held.waits_for is not None and held.waits_for.startswith(LATE):
        return "its server works on it, and `agenttool serve` takes in what comes of it"
    if held.waits_for is not None:
        return f"it waits for an answer: agenttool approvals answer {held.waits_for} allow"
    return "a process that lives has it in hand" if held.is_alive else f"its process is gone; {_TAKE_UP}"


def told(held: Holding | None) -> JsonObject | None:
    """Write it down for a program."""
    return None if held is None else {**held._asdict()}

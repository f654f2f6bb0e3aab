"""How a call stands that has not ended: who has it in hand, and what brings its end."""

from agenttool.ports.later import LATE
from agenttool.records import JsonObject
from agenttool.stores.sqlite.holding import Holding


def how_it_stands(held: Holding | None, where: str) -> str:
    """Say who has a call, and what it waits for; `where` are the words that name the journal to another command."""
    take_up = f"a process that has its tool takes it up, such as `agenttool approvals --from MODULE{where}`"
    if held is None:
        return f"nobody has it in hand: look at `agenttool verify{where}`"
    if held.is_answered:
        return "its answer is there; " + ("its process is about to hear it" if held.is_alive else take_up)
    if held.waits_for is not None and held.waits_for.startswith(LATE):
        return "its server works on it, and `agenttool serve` takes in what comes of it"
    if held.waits_for is not None:
        return f"it waits for an answer: agenttool approvals answer {held.waits_for} allow{where}"
    return "a process that lives has it in hand" if held.is_alive else f"its process is gone; {take_up}"


def told(held: Holding | None) -> JsonObject | None:
    """Write it down for a program."""
    return None if held is None else {**held._asdict()}

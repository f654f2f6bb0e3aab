"""What does not fit a schema, in words."""

from agenttool.records import JsonObject
from agenttool.schema.compile import Checker

MAX_TOLD = 5


def told_misfits(checker: Checker, value: JsonObject) -> str:
    """Say what does not fit, the first few."""
    misfits = checker.misfits(value)
    told = [f"at {each.pointer or '/'!r}: expected {each.expected}; {each.advice}" for each in misfits[:MAX_TOLD]]
    more = f" (and {len(misfits) - MAX_TOLD} more)" if len(misfits) > MAX_TOLD else ""
    return "; ".join(told) + more

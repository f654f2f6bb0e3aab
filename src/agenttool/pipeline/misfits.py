"""What does not fit a schema, in words."""

from collections.abc import Sequence

from agenttool.schema.explain import Misfit

MAX_TOLD = 5


def told_misfits(misfits: Sequence[Misfit]) -> str:
    """Say what does not fit, the first few."""
    told = [f"at {each.pointer or '/'!r}: expected {each.expected}; {each.advice}" for each in misfits[:MAX_TOLD]]
    more = f" (and {len(misfits) - MAX_TOLD} more)" if len(misfits) > MAX_TOLD else ""
    return "; ".join(told) + more

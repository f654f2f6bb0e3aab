"""Describe violations of a schema."""

from collections.abc import Sequence

from agenttool.schema.explain import Misfit

MAX_DESCRIBED = 5


def describe_misfits(misfits: Sequence[Misfit]) -> str:
    """Return a message about the first violations."""
    described = [
        f"at {each.pointer or '/'!r}: expected {each.expected}; {each.advice}" for each in misfits[:MAX_DESCRIBED]
    ]
    more = f" (and {len(misfits) - MAX_DESCRIBED} more)" if len(misfits) > MAX_DESCRIBED else ""
    return "; ".join(described) + more

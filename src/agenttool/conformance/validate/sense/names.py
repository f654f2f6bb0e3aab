"""Names of input fields as contracts write them: bare, dotted, or as JSON pointers."""

import re
from collections.abc import Iterable
from typing import Self

from agenttool.records import Json

_STEP = re.compile(r"[^.\[\]]+")
_FEW = 20


def name_path(name: str) -> tuple[str, ...]:
    """Give the steps of a field's name; indexes and stars stand for any item and are left out."""
    if name.startswith("/"):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in name.split("/")[1:]]
    else:
        steps = [step.group() for step in _STEP.finditer(name)]
    return tuple(step for step in steps if step and step not in ("*", "$") and not step.isdigit())


class FieldNames:
    """A list of fields, asked whether a way through a document leads to one of them.

    Taken strictly: a bare name means every field of that name, on whichever level, because a secret is one wherever it
    stands. The answer takes no longer for a long list than for a short one.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Take the names as they were written."""
        self.names = tuple(names)
        self._paths = frozenset(path for name in self.names if (path := name_path(name)))
        self._lengths = sorted({len(path) for path in self._paths})
        self._ends = tuple({path[-1].encode() for path in self._paths})

    @classmethod
    def of(cls, names: Json) -> Self:
        """Take the names from a contract, which may hold anything."""
        return cls(name for name in (names if isinstance(names, list) else ()) if isinstance(name, str))

    def __bool__(self) -> bool:
        """Tell whether any field is named."""
        return bool(self._paths)

    def end(self, steps: tuple[str, ...]) -> bool:
        """Tell whether a way ends at one of the fields."""
        return any(steps[-length:] in self._paths for length in self._lengths)

    def are_passed_by(self, steps: Iterable[str]) -> bool:
        """Tell whether a way leads through one of the fields, or ends there."""
        way = tuple(steps)
        return any(self.end(way[:length]) for length in range(1, len(way) + 1))

    def may_occur_in(self, text: bytes) -> bool:
        """Tell cheaply whether a document can hold a field at all: not if no name occurs and nothing is escaped."""
        if len(self._ends) > _FEW:
            return True
        for end in self._ends:
            if end in text:
                return True
        return b"\\" in text and bool(self._ends)

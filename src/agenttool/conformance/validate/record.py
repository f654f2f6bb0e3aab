"""A record that someone else wrote: of a known kind, but not known to fit it."""

from collections.abc import Mapping
from typing import NamedTuple

from agenttool.records import JsonObject


class ForeignRecord(NamedTuple):
    """One record in today's spelling.

    Attributes:
        kind: its `record_type`, said or inferred.
        members: plain JSON; nothing about their shape is certain.
        text: its bytes as they were written, to ask cheaply whether a word occurs at all.
        is_exact: the members say exactly what the bytes say.
        old_pointers: how renamed members are spelled in the file, by their pointer in today's spelling.
    """

    kind: str
    members: JsonObject
    text: bytes
    is_exact: bool
    old_pointers: Mapping[str, str]

    def in_file(self, pointer: str) -> str:
        """Say where in the file something is that has a pointer in today's spelling."""
        for new, old in self.old_pointers.items():
            if pointer == new or pointer.startswith(f"{new}/"):
                return old + pointer.removeprefix(new)
        return pointer

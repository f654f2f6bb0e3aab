"""The review of tool definitions: a tool whose definition changed does not run until a user has reviewed it.

The accepted definitions of each server are stored. What a server lists for the first time is accepted, unless its
settings say that new tools wait for a review, too.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from agenttool.codec import digest_of_any, read_own, write_own
from agenttool.errors import RecordError, StoreError
from agenttool.ports.stores import DocumentStore
from agenttool.records import Json, JsonObject, Part
from agenttool.records.record import field, replace

REVIEWED = "mcp_tools"
"""The kind of the document with the definitions of a server, by its name."""

MAX_TRIES = 20
"""How often a change of the document is tried again because another process changed it at the same time."""

_DECISIVE = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""The members of a definition that a model or a person relies on."""


class ReviewedTools(Part, frozen=True, kw_only=True):
    """The definitions of one server.

    Attributes:
        accepted: those that may run, by name; also of tools that the server does not list at present.
        waiting: those that wait for a review, by name: changed ones, and new ones.
        features: which of resources, prompts and tasks the server has.
    """

    accepted: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    waiting: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    features: tuple[str, ...] = ()

    def accept(self, names: Iterable[str]) -> "ReviewedTools":
        """Return a copy in which the named waiting definitions are accepted."""
        chosen = {name: self.waiting[name] for name in names if name in self.waiting}
        left = {name: each for name, each in self.waiting.items() if name not in chosen}
        return replace(self, accepted={**self.accepted, **chosen}, waiting=left)

    def with_listed(
        self, listed: Mapping[str, JsonObject], features: tuple[str, ...], *, shows_new: bool
    ) -> "ReviewedTools":
        """Return a copy that is updated with the tools that the server lists now."""
        accepted, waiting = dict(self.accepted), dict[str, JsonObject]()
        for name, definition in listed.items():
            before = accepted.get(name)
            if before is None and shows_new:
                accepted[name] = definition
            elif before is None or not is_same(before, definition):
                waiting[name] = definition
            else:
                accepted[name] = definition  # members that decide nothing may differ
        return ReviewedTools(accepted=accepted, waiting=waiting, features=features)


def is_same(first: JsonObject, second: JsonObject) -> bool:
    """Return whether two definitions agree in what a model or a person relies on."""
    return first == second or _decisive_digest(first) == _decisive_digest(second)


def _decisive_digest(definition: JsonObject) -> str:
    return digest_of_any({member: definition[member] for member in _DECISIVE if member in definition})


def differences(before: JsonObject | None, after: JsonObject) -> dict[str, tuple[Json, Json]]:
    """Return the members that differ, each with its value before and after; None stands for a missing one."""
    members = ((each, (before or {}).get(each), after.get(each)) for each in _DECISIVE)
    return {name: (old, new) for name, old, new in members if old != new}


async def load_reviewed(documents: DocumentStore, server: str) -> ReviewedTools | None:
    """Return the stored definitions of a server; None if there are none that this version reads."""
    body = await documents.get(REVIEWED, server)
    return None if body is None else _read(body)


async def change_reviewed(
    documents: DocumentStore, server: str, change: Callable[[ReviewedTools], ReviewedTools]
) -> ReviewedTools:
    """Change the stored definitions of a server, and return them.

    Raises:
        StoreError: they cannot be stored.
    """
    for _ in range(MAX_TRIES):
        body = await documents.get(REVIEWED, server)
        before = None if body is None else _read(body)
        after = change(before or ReviewedTools())
        if after == before or await documents.swap(REVIEWED, server, before=body, after=write_own(after)):
            return after
        await asyncio.sleep(0)
    raise StoreError(f"the definitions of {server!r} are changed by too many processes at a time; try again")


def _read(body: bytes) -> ReviewedTools | None:
    try:
        return read_own(body, ReviewedTools)
    except RecordError:
        return None  # another version stored it

"""The review of tool definitions: a changed tool does not run until a user accepts its definition.

The accepted definitions of each source are stored. What a source lists for the first time is accepted, unless its
settings say that new tools wait for a review, too.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from agenttool.codec import digest_of_any, read_stored, write_own
from agenttool.errors import StoreError
from agenttool.ports.source import SourceHost
from agenttool.ports.stores import DocumentStore
from agenttool.records import JsonObject, Part
from agenttool.records.record import field, replace

MAX_TRIES = 20
"""How often a change of the document is tried again because another process changed it at the same time."""

POLL_S = 2.0
"""How often a runtime checks whether another process has reviewed its waiting tools."""

_SHOWN_NAMES = 5


class ReviewedTools(Part, frozen=True, kw_only=True):
    """The definitions of one source.

    Attributes:
        accepted: those that may run, by name; also of tools that the source does not list at present.
        waiting: those that wait for a review, by name: changed ones, and new ones.
        features: which of resources, prompts and tasks an MCP server has.
    """

    accepted: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    waiting: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    features: tuple[str, ...] = ()


class ToolReview:
    """The review of the tools of one source.

    Attributes:
        tools: its definitions as they are known now.
    """

    def __init__(self, source: str, kind: str, decisive: tuple[str, ...], shown: tuple[str, ...] = ()) -> None:
        """Take the name of the source, and how its definitions are stored and compared.

        Args:
            source: the name of the source.
            kind: the kind of the stored document with its definitions.
            decisive: the members of a definition that a model or a person relies on.
            shown: the members that a review shows; empty means the decisive ones.
        """
        self.tools = ReviewedTools()
        self._source = source
        self._kind = kind
        self._decisive = decisive
        self._shown = shown or decisive
        self._listed: Mapping[str, JsonObject] | None = None
        self._features: tuple[str, ...] = ()
        self._shows_new = False

    @property
    def waiting(self) -> Mapping[str, JsonObject]:
        """The definitions that wait for a review, by name; those of changed tools, and of new ones."""
        return self.tools.waiting

    @property
    def fault(self) -> str | None:
        """How many tools wait, and the command that shows them; None if none does."""
        waiting = sorted(self.waiting)
        if not waiting:
            return None
        named = ", ".join(waiting[:_SHOWN_NAMES]) + (", …" if len(waiting) > _SHOWN_NAMES else "")
        count = f"{len(waiting)} tools wait" if len(waiting) > 1 else "1 tool waits"
        return f"{count} for a review ({named}): run `agenttool sources review {self._source}`"

    def advice(self, tool: str) -> str | None:
        """Return why a tool does not run, and the command that reviews it; None if it does not wait."""
        if tool not in self.waiting:
            return None
        kind = "changed" if tool in self.tools.accepted else "is new"
        return f"its definition {kind} and waits for a review; run `agenttool sources review {self._source}`"

    def describe_change(self, tool: str) -> JsonObject:
        """Return what differs in a definition that waits for a review: its digest, and each member before and after.

        Raises:
            KeyError: no definition of this name waits.
        """
        before, after = self.tools.accepted.get(tool), self.waiting[tool]
        members = ((each, (before or {}).get(each), after.get(each)) for each in self._shown)
        changed: JsonObject = {name: [old, new] for name, old, new in members if old != new}
        return {"tool": tool, "is_changed": before is not None, "digest": self._digest(after), "members": changed}

    def is_same(self, first: JsonObject, second: JsonObject) -> bool:
        """Return whether two definitions agree in what a model or a person relies on."""
        return first == second or self._digest(first) == self._digest(second)

    def _digest(self, definition: JsonObject) -> str:
        return digest_of_any({member: definition[member] for member in self._decisive if member in definition})

    async def load(self, documents: DocumentStore) -> ReviewedTools | None:
        """Return the stored definitions; None if there are none that this version reads."""
        body = await documents.get(self._kind, self._source)
        return read_stored(body, ReviewedTools)

    async def update(
        self,
        documents: DocumentStore,
        listed: Mapping[str, JsonObject],
        *,
        features: tuple[str, ...] = (),
        shows_new: bool,
    ) -> None:
        """Compare the tools that the source lists now with the stored ones, and store the outcome.

        Raises:
            StoreError: it cannot be stored.
        """
        self._listed, self._features, self._shows_new = listed, features, shows_new
        await self._change(documents, self._compared)

    def _compared(self, stored: ReviewedTools) -> ReviewedTools:
        """Return stored definitions with those that wait: what the source lists now, and what differs."""
        accepted, waiting = dict(stored.accepted), dict[str, JsonObject]()
        listed = stored.waiting if self._listed is None else self._listed
        for name, definition in listed.items():
            known = accepted.get(name)
            if (known is None and not self._shows_new) or (known is not None and not self.is_same(known, definition)):
                waiting[name] = definition
            else:
                accepted[name] = definition  # members that decide nothing may differ
        features = stored.features if self._listed is None else self._features
        return ReviewedTools(accepted=accepted, waiting=waiting, features=features)

    async def accept(self, documents: DocumentStore, shown: Mapping[str, JsonObject]) -> None:
        """Accept definitions as they were shown, by name; what the source lists otherwise still waits.

        Raises:
            StoreError: it cannot be stored.
        """
        chosen = dict(shown)
        await self._change(
            documents, lambda before: self._compared(replace(before, accepted={**before.accepted, **chosen}))
        )

    async def watch(self, documents: DocumentStore, use: Callable[[], Awaitable[None]]) -> None:
        """Call `use` whenever another process accepted waiting tools; return when none waits."""
        while self.waiting:
            await asyncio.sleep(POLL_S)
            with suppress(StoreError):
                found = await self.load(documents)
                compared = None if found is None else self._compared(found)
                if compared is not None and compared != self.tools:
                    self.tools = compared
                    await use()

    async def _change(self, documents: DocumentStore, change: Callable[[ReviewedTools], ReviewedTools]) -> None:
        for _ in range(MAX_TRIES):
            body = await documents.get(self._kind, self._source)
            before = read_stored(body, ReviewedTools)
            after = change(before or ReviewedTools())
            if after == before or await documents.swap(self._kind, self._source, before=body, after=write_own(after)):
                self.tools = after
                return
            await asyncio.sleep(0)
        message = f"the definitions of {self._source!r} are changed by too many processes at a time; try again"
        raise StoreError(message)


class SourceWithReview(ABC):
    """The part of a source that implements `ports.source.ReviewedSource`."""

    _host: SourceHost
    _review: ToolReview
    _review_watch: "asyncio.Task[None] | None" = None

    @abstractmethod
    async def _use_reviewed(self) -> None:
        """Declare the tools again, because some were accepted."""

    @property
    def waiting(self) -> Mapping[str, JsonObject]:
        """The definitions that wait for a review, by name; those of changed tools, and of new ones."""
        return self._review.waiting

    def describe_change(self, tool: str) -> JsonObject:
        """Return what differs in a definition that waits for a review: its digest, and each member before and after.

        Raises:
            KeyError: no definition of this name waits.
        """
        return self._review.describe_change(tool)

    async def accept(self, shown: Mapping[str, JsonObject]) -> None:
        """Accept definitions as `waiting` had them, so that their tools can be used unless they changed since.

        Raises:
            StoreError: it cannot be stored.
        """
        await self._review.accept(self._host.documents, shown)
        await self._use_reviewed()

    def _watch_review(self) -> None:
        """Use the tools that another process accepts, until none waits."""
        if self.waiting and (self._review_watch is None or self._review_watch.done()):
            watch = self._review.watch(self._host.documents, self._use_reviewed)
            self._review_watch = asyncio.create_task(watch)  # noqa: TID251 -- `close` of the source is its parent

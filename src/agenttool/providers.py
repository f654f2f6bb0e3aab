"""The tools of a surface in the hands of a model: what to send, what to answer, and nothing left unanswered.

```python
tools = await rt.tools_for("anthropic")
while True:
    reply = await client.messages.create(model=..., max_tokens=1024, messages=messages, **tools.request())
    turn = await tools.answer(reply)
    messages += turn.messages
    if turn.is_final:
        break
```
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

from agenttool.adapters.function_calling.content import answers_of, refs_in
from agenttool.adapters.function_calling.formats import format_named
from agenttool.adapters.function_calling.menu import Menu, Wishes, claims_on, make_menu, may_search
from agenttool.adapters.function_calling.names import Claims
from agenttool.errors import ConfigError, StoreError
from agenttool.ports.calls import ToolCall
from agenttool.ports.offer import OfferedTool
from agenttool.records import (
    AbsentTool,
    DeferredToolRef,
    Digest,
    JsonObject,
    Ref,
    SurfaceId,
    ToolId,
    ToolResult,
    ToolSurface,
)
from agenttool.runtime import Runtime

__all__ = ["ModelTools", "Turn"]

MAX_MEDIA_BYTES = 20_000_000
"""A piece of media larger than this stays where it is: no provider takes it inside of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of a model and what became of it.

    Attributes:
        said: the model's answer, as the next request must repeat it.
        answers: the messages with the results of its calls.
        is_final: the model wants nothing more.
    """

    said: tuple[JsonObject, ...]
    answers: tuple[JsonObject, ...]
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    is_final: bool

    @property
    def messages(self) -> list[JsonObject]:
        """What to add to the conversation; calls and results come together or not at all."""
        return [*self.said, *self.answers]


class ModelTools:
    """The tools of a surface, as the models of one provider know them. Belongs to one conversation.

    Attributes:
        surface: the surface of the last request; it grows when a model finds deferred tools, by its provider's search
            or by ours, and another takes its place when something changed.
    """

    def __init__(self, runtime: Runtime, surface: ToolSurface, provider: str, wishes: Wishes) -> None:
        """Take the runtime, a surface that it made, and the name of a format.

        Raises:
            ConfigError: there is no such format.
        """
        self.surface = surface
        self._runtime = runtime
        self._format = format_named(provider)
        self._wishes = wishes
        self._found: set[ToolId] = set()
        self._known: tuple[SurfaceId, Menu] | None = None
        self._claims: tuple[Sequence[str], Claims] | None = None

    def request(self) -> JsonObject:
        """Give the part of a request that is about tools: its tools, and what it says about choosing among them.

        Ask anew for every request: a turn may have brought tools to the surface, and a change may have taken some.

        Raises:
            ConfigError: the tool choice names no tool that is sent, or several.
        """
        self.surface = self._runtime.latest(self.surface)
        return self._format.request(self._menu())

    @property
    def left_out(self) -> tuple[AbsentTool, ...]:
        """The tools that this provider would refuse, each with its reason; they cost the others nothing."""
        return self._menu().left_out

    @property
    def notes(self) -> dict[str, str]:
        """What could not be had for a tool that is sent, by its qualified name, such as why it is not strict."""
        return {each.tool.qualified_name: each.note for each in self._menu().shown.values() if each.note is not None}

    async def answer(self, reply: object) -> Turn:
        """Run what a model asks for, all at once as far as the tools allow, and give what to send back.

        The reply may be the SDK's object or plain JSON. Whatever is wrong with a call is its result.

        Raises:
            asyncio.CancelledError: the caller was canceled; as no message was added, no call is left open.
        """
        menu = self._menu()
        read = self._format.read(reply, menu)
        await self._load_found(menu, read.found)
        calls = tuple(each.call for each in read.calls)
        results = await self._runtime.batch(calls, surface=self.surface) if calls else []
        with suppress(ConfigError):  # a runtime that was closed meanwhile has results, but no surface any more
            self.surface = await self._runtime.current(self.surface)  # the model itself may have loaded tools
        self._known = None  # and a call may have brought some, such as the one that reads stored output
        payloads = await self._payloads(refs_in(results, self._media_taken()))
        return Turn(
            said=read.echo,
            answers=tuple(self._format.write(answers_of(read.calls, results, payloads))),
            calls=calls,
            results=tuple(results),
            is_final=read.is_final,
        )

    def settle(self, messages: Sequence[object]) -> list[object]:
        """Give a conversation in which every call has a result; calls that had none are told to be interrupted.

        For conversations that others kept, or that ended with a process; what `answer` gives needs it never.
        """
        return self._format.settle(messages)

    async def load(self, names: Iterable[str]) -> None:
        """Show deferred tools from the next request on.

        Raises:
            ConfigError: a name leads to no tool on this surface.
        """
        self.surface = await self._runtime.load(self.surface, names)

    def _menu(self) -> Menu:
        """Put together what is sent; what the provider's search found is sent as before, for it is referred to."""
        if self._known is None or self._known[0] != self.surface.surface_id:
            model, refs = self.surface.model_capabilities, self.surface.deferred_tools or ()
            limits, wishes = self._format.LIMITS.within(model), self._wishes.within(model)
            waiting = () if may_search(len(refs), limits, wishes) else cast("Sequence[DeferredToolRef]", refs)
            offered = self._runtime.offered(self.surface, deferred=not waiting)
            sent = [replace(each, is_deferred=True) if each.tool_id in self._found else each for each in offered]
            menu = make_menu(sent, limits, wishes, waiting=waiting, claims=self._claimed(sent, waiting))
            self._known = self.surface.surface_id, menu
        return self._known[1]

    def _claimed(self, sent: Iterable[OfferedTool], waiting: Iterable[DeferredToolRef]) -> Claims:
        """Count the names that tools want; as long as the same tools are there, loaded or not, they want the same."""
        known, refs = self._claims, self.surface.tool_refs or ()
        if known is None or (known[0] is not refs and frozenset(known[0]) != frozenset(refs)):
            known = refs, claims_on((*sent, *waiting))
        self._claims = refs, known[1]
        return known[1]

    async def _load_found(self, menu: Menu, found: Iterable[str]) -> None:
        """Load what the provider's own search has shown to its model, so that it may be called."""
        shown = (menu.shown[name].tool for name in found if name in menu.shown)
        fresh = [tool for tool in shown if tool.is_deferred and tool.tool_id not in self._found]
        for tool in fresh:
            with suppress(ConfigError):  # it went while the model thought of it; a call says why it is not there
                await self.load([tool.qualified_name])
                self._found.add(tool.tool_id)

    def _media_taken(self) -> Collection[object] | None:
        """Give the kinds of media that the surface's model takes; none if nobody said what it can do."""
        media = (self.surface.model_capabilities or {}).get("media")
        return media if isinstance(media, list | tuple) else None

    async def _payloads(self, refs: Iterable[Ref]) -> dict[Digest, bytes]:
        """Fetch the media that a model is to be shown; what cannot be had is told by its caption alone."""
        found: dict[Digest, bytes] = {}
        for ref in refs:
            if ref.digest is None or ref.digest in found or (ref.size_bytes or 0) > MAX_MEDIA_BYTES:
                continue
            try:
                data = await self._runtime.payload(ref)
            except StoreError:
                continue
            if data is not None:
                found[ref.digest] = data
        return found

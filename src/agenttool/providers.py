"""The tools of a surface for one conversation with a model: what to send, how to answer a reply, and how to repair.

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
from typing import Protocol, cast

from agenttool.adapters.function_calling.call_output import media_refs, outputs_of
from agenttool.adapters.function_calling.formats import find_format
from agenttool.adapters.function_calling.function_names import NameCounts
from agenttool.adapters.function_calling.tool_payload import (
    ToolPayload,
    ToolRequestOptions,
    build_payload,
    count_surface_names,
    fits_native_search,
)
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

__all__ = ["ModelTools", "ModelTurn"]

MAX_MEDIA_BYTES = 20_000_000
"""Larger media are not fetched: no provider takes them in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """One reply of a model, the calls in it, and their results.

    Attributes:
        reply_messages: the reply as the next request must repeat it.
        result_messages: the messages with the results of its calls.
        is_final: the reply has no calls, and the model does not expect to continue.
    """

    reply_messages: tuple[JsonObject, ...]
    result_messages: tuple[JsonObject, ...]
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    is_final: bool

    @property
    def messages(self) -> list[JsonObject]:
        """What to add to the conversation: the reply, then the results of all of its calls."""
        return [*self.reply_messages, *self.result_messages]


class PayloadReader(Protocol):
    """Reads stored bytes; `rt.journal` is one."""

    async def payload(self, payload: Ref, /) -> bytes | None:
        """Return stored bytes."""
        ...


class ToolServer(Protocol):
    """What a conversation with a model needs of a runtime."""

    @property
    def journal(self) -> PayloadReader:
        """Reads the stored media of results."""
        ...

    def current(self, surface: ToolSurface, /) -> ToolSurface:
        """Return the surface that replaced this one."""
        ...

    async def load(self, surface: ToolSurface, names: Iterable[str], /) -> ToolSurface:
        """Return a surface that also shows the named tools."""
        ...

    def offered(self, surface: ToolSurface, /, *, deferred: bool) -> tuple[OfferedTool, ...]:
        """List the tools of a surface."""
        ...

    async def batch(self, calls: Sequence[ToolCall], /, *, surface: ToolSurface) -> list[ToolResult]:
        """Run calls and return their results in order."""
        ...


class ModelTools:
    """The tools of a surface in the format of one provider, for one conversation.

    Attributes:
        surface: the surface of the last request. It changes when a model loads deferred tools or when the tools change.
    """

    def __init__(self, runtime: ToolServer, surface: ToolSurface, provider: str, options: ToolRequestOptions) -> None:
        """Take the runtime, a surface that it made, and the name of a format.

        Raises:
            ConfigError: there is no such format.
        """
        self.surface = surface
        self._runtime = runtime
        self._format = find_format(provider)
        self._options = options
        self._found: set[ToolId] = set()
        self._built: tuple[SurfaceId, ToolPayload] | None = None
        self._counted: tuple[Sequence[str], NameCounts] | None = None

    def request(self) -> JsonObject:
        """Return the arguments of a request that are about tools: the tools and the tool choice.

        Call it for every request: a turn may load tools, and a change may remove some.

        Raises:
            ConfigError: the tool choice names no tool that is sent, or several.
        """
        self.surface = self._runtime.current(self.surface)
        return self._format.request(self._payload())

    @property
    def left_out(self) -> tuple[AbsentTool, ...]:
        """The tools that the provider would reject, each with its reason; the other tools are sent."""
        return self._payload().left_out

    @property
    def notes(self) -> dict[str, str]:
        """Notes on tools that are sent, by qualified name, such as why one is not strict."""
        return {each.tool.qualified_name: each.note for each in self._payload().tools.values() if each.note is not None}

    async def answer(self, reply: object) -> ModelTurn:
        """Run the calls of a reply, in parallel as far as the tools allow, and return what to send back.

        The reply may be an SDK object or plain JSON. A call that cannot run gets a result that says why.

        Raises:
            asyncio.CancelledError: the caller was canceled; no message was added, so no call lacks a result.
        """
        payload = self._payload()
        read = self._format.read(reply, payload)
        await self._load_found(payload, read.found)
        calls = tuple(each.call for each in read.calls)
        results = await self._runtime.batch(calls, surface=self.surface) if calls else []
        with suppress(ConfigError):  # a runtime that was closed meanwhile has results, but no surface
            self.surface = self._runtime.current(self.surface)  # a call may have loaded tools
        self._built = None  # a call may have added tools, such as the one that reads stored output
        stored = await self._fetch(media_refs(results, self._accepted_media()))
        return ModelTurn(
            reply_messages=read.echo,
            result_messages=tuple(self._format.write(outputs_of(read.calls, results, stored))),
            calls=calls,
            results=tuple(results),
            is_final=read.is_final,
        )

    def repair(self, messages: Sequence[object]) -> list[object]:
        """Return a conversation in which every call has a result; a missing one says that the turn was interrupted.

        Use it for conversations that were stored elsewhere or whose process ended; `answer` leaves no call open.
        """
        return self._format.repair(messages)

    async def load(self, names: Iterable[str]) -> None:
        """Load deferred tools, so that the next request sends them.

        Raises:
            ConfigError: a name matches no tool of this surface.
        """
        self.surface = await self._runtime.load(self.surface, names)

    def _payload(self) -> ToolPayload:
        """Return the payload for the current surface; tools that a native search found stay deferred in it."""
        if self._built is None or self._built[0] != self.surface.surface_id:
            model, refs = self.surface.model_capabilities, self.surface.deferred_tools or ()
            limits, options = self._format.LIMITS.for_model(model), self._options.for_model(model)
            is_native = fits_native_search(len(refs), limits, options)
            deferred = () if is_native else cast("Sequence[DeferredToolRef]", refs)
            offered = self._runtime.offered(self.surface, deferred=not deferred)
            sent = [replace(each, is_deferred=True) if each.tool_id in self._found else each for each in offered]
            counts = self._name_counts(sent, deferred)
            payload = build_payload(sent, limits, options, deferred=deferred, counts=counts)
            self._built = self.surface.surface_id, payload
        return self._built[1]

    def _name_counts(self, sent: Iterable[OfferedTool], deferred: Iterable[DeferredToolRef]) -> NameCounts:
        """Count the names of the surface's tools; the counts are reused while the tools stay the same."""
        known, refs = self._counted, self.surface.tool_refs or ()
        if known is None or (known[0] is not refs and frozenset(known[0]) != frozenset(refs)):
            known = refs, count_surface_names((*sent, *deferred))
        self._counted = refs, known[1]
        return known[1]

    async def _load_found(self, payload: ToolPayload, found: Iterable[str]) -> None:
        """Load the tools that the provider's native search has shown to its model."""
        tools = (payload.tools[name].tool for name in found if name in payload.tools)
        unloaded = [tool for tool in tools if tool.is_deferred and tool.tool_id not in self._found]
        for tool in unloaded:
            with suppress(ConfigError):  # it was removed meanwhile; the result of a call says why
                await self.load([tool.qualified_name])
                self._found.add(tool.tool_id)

    def _accepted_media(self) -> Collection[object] | None:
        """Return the kinds of media that the surface's model takes; None if that is unknown."""
        media = (self.surface.model_capabilities or {}).get("media")
        return media if isinstance(media, list | tuple) else None

    async def _fetch(self, refs: Iterable[Ref]) -> dict[Digest, bytes]:
        """Fetch media from the store; of those that cannot be read the model sees only the caption."""
        found: dict[Digest, bytes] = {}
        for ref in refs:
            if ref.digest is None or ref.digest in found or (ref.size_bytes or 0) > MAX_MEDIA_BYTES:
                continue
            try:
                data = await self._runtime.journal.payload(ref)
            except StoreError:
                continue
            if data is not None:
                found[ref.digest] = data
        return found

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

import asyncio
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, cast

from agenttool.adapters.function_calling.call_output import media_refs, outputs_of
from agenttool.adapters.function_calling.formats import find_format, read_reply, unexpected
from agenttool.adapters.function_calling.function_names import NameCounts
from agenttool.adapters.function_calling.model_reply import ModelReply, StreamAssembler, whole_characters
from agenttool.adapters.function_calling.provider_format import ProviderFormat
from agenttool.adapters.function_calling.tool_payload import (
    PayloadTool,
    ToolPayload,
    ToolRequestOptions,
    build_payload,
    count_surface_names,
    fits_native_search,
)
from agenttool.agent.call_access import CallAccess
from agenttool.agent.journal_view import JournalView
from agenttool.agent.surface_access import SurfaceAccess
from agenttool.durable.approval_queue import ApprovalQueue
from agenttool.errors import ConfigError, ReplyError, StoreError
from agenttool.policy.approvals import Question
from agenttool.ports.calls import ToolCall
from agenttool.ports.offer import OfferedTool
from agenttool.providers.turn import IncompleteReplyError, ModelTurn, WaitingCall, read_turn
from agenttool.records import (
    AbsentTool,
    ApprovalId,
    DeferredToolRef,
    Digest,
    InvocationId,
    Json,
    JsonObject,
    Ref,
    SurfaceId,
    ToolId,
    ToolResult,
    ToolSurface,
)

MAX_MEDIA_BYTES = 20_000_000
"""Larger media are not fetched: no provider takes them in a message."""


Pending = Literal["wait", "return"]
"""What to do about a call that waits for an approval: wait with it, or return a turn with `pending` calls."""

Callback = Callable[[object], object]
"""Receives an event; it may be a coroutine function."""

_END = object()


class ToolServer(Protocol):
    """What a conversation with a model needs of a runtime."""

    journal: JournalView
    approvals: ApprovalQueue
    calls: CallAccess
    surfaces: SurfaceAccess

    async def load(self, found: Iterable[str], /, *, surface: ToolSurface) -> ToolSurface:
        """Return a surface that also shows the named tools."""
        ...

    async def batch(self, calls: Sequence[ToolCall], /, *, surface: ToolSurface) -> list[ToolResult]:
        """Run calls and return their results in order."""
        ...


class ModelTools:
    """The tools of a surface in the format of one provider, for one conversation.

    Attributes:
        provider: the name of the format.
        surface: the surface of the last request. It changes when a model loads deferred tools or when the tools change.
    """

    def __init__(self, runtime: ToolServer, surface: ToolSurface, provider: str, options: ToolRequestOptions) -> None:
        """Take the runtime, a surface that it made, and the name of a format.

        Raises:
            ConfigError: there is no such format.
        """
        self.surface = surface
        self._runtime = runtime
        self.provider = provider
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
        self.surface = self._runtime.surfaces.current(self.surface)
        return self._format.request(self._payload())

    @property
    def is_strict(self) -> bool:
        """Whether strict schemas are sent for tools that have one.

        Set it to False if the API of Anthropic finds the strict schemas of a request too large together.
        """
        return self._options.strict

    @is_strict.setter
    def is_strict(self, strict: bool) -> None:
        self._options, self._built = replace(self._options, strict=strict), None

    @property
    def functions(self) -> tuple[PayloadTool, ...]:
        """The functions of a request, each with the name, the description and the schema that the provider takes."""
        return tuple(self._payload().tools.values())

    @property
    def left_out(self) -> tuple[AbsentTool, ...]:
        """The tools that the provider would reject, each with its reason; the other tools are sent."""
        return self._payload().left_out

    @property
    def notes(self) -> dict[str, str]:
        """Notes on tools that are sent, by qualified name, such as why one is not strict."""
        return {each.tool.qualified_name: each.note for each in self._payload().tools.values() if each.note is not None}

    async def answer(
        self,
        reply: object,
        *,
        pending: Pending = "wait",
        on_event: Callback | None = None,
        on_text: Callable[[str], object] | None = None,
    ) -> ModelTurn:
        """Run the calls of a reply, in parallel as far as the tools allow, and return what to send back.

        A call that cannot run gets a result that says why. A call of a stream starts when its arguments are complete.

        Args:
            reply: the complete reply, as an SDK object or as JSON; or its stream, an iterator or asynchronous iterator
                of the SDK's events or of their JSON.
            pending: `wait` waits for approvals. `return` returns a turn that lists the `pending` calls; `resume`
                continues it.
            on_event: receives each event of a stream as it arrives. It may be a coroutine function.
            on_text: receives each piece of text that the model writes to the user. It may be a coroutine function.

        Raises:
            ReplyError: this is no reply of the provider's API, or one that failed; no call was started.
            IncompleteReplyError: a stream ended early or failed, and some of its calls had started.
            asyncio.CancelledError: the caller was canceled; no message was added, so no call lacks a result.
        """
        _check_pending(pending)
        payload = self._payload()
        if _is_stream(reply):
            return await self._answer_stream(reply, payload, pending, (on_event, on_text))
        read = read_reply(self._format, reply, payload)
        await self._load_found(payload, read.found)
        if on_text is not None and read.text:
            await _notify(on_text, read.text)
        calls = [each.call for each in read.calls]
        if pending == "wait":
            results = await self._runtime.batch(calls, surface=self.surface) if calls else []
            return await self._turn(read, [(each.invocation_id, each) for each in results])
        async with asyncio.TaskGroup() as group:
            started = [group.create_task(self._run(each, pending)) for each in calls]
        return await self._turn(read, [each.result() for each in started])

    async def resume(self, turn: ModelTurn | str, *, pending: Pending = "wait") -> ModelTurn:
        """Continue a turn with pending calls; return it with the results of all calls.

        Args:
            turn: the turn, or the text that its `to_json` returned, also in another process on the same durable store.
            pending: `wait` waits until all calls have ended; `return` returns the turn as it is now.

        Raises:
            ConfigError: it is no such turn, it is one of another provider, or the journal has no such calls.
        """
        _check_pending(pending)
        provider, reply, started = read_turn(turn)
        if provider != self.provider:
            raise ConfigError(f"this is a turn of {provider!r}; resume it with tools_for({provider!r})")
        results = [
            await (self._runtime.calls.get(each).result() if pending == "wait" else self._runtime.journal.result(each))
            for each in started
        ]
        return await self._turn(reply, list(zip(started, results, strict=True)))

    async def _answer_stream(
        self,
        stream: object,
        payload: ToolPayload,
        pending: Pending,
        callbacks: tuple[Callback | None, Callable[[str], object] | None],
    ) -> ModelTurn:
        """Read a stream, start each call when it is complete, and return the turn when all have ended."""
        reading = StreamReading(self._format, payload, self._format.assembler(), callbacks)
        read, tasks = ModelReply(echo=(), calls=()), list[asyncio.Task[tuple[InvocationId, ToolResult | None]]]()
        try:
            async with asyncio.TaskGroup() as group, aclosing(reading.replies(stream)) as replies:
                async for reply in replies:
                    await self._load_found(payload, reply.found)
                    ready = reply.calls[len(tasks) :]
                    read = replace(reply, calls=(*read.calls, *ready))  # a call that has started does not change
                    tasks += [group.create_task(self._run(each.call, pending)) for each in ready]
        except BaseExceptionGroup as errors:  # the group of one error, such as that of a callback
            raise errors.exceptions[0] from None
        if reading.fault is not None and not tasks:
            raise unexpected(self._format, reading.received) if reading.is_unexpected else reading.fault
        turn = await self._turn(read, [each.result() for each in tasks])
        if reading.fault is not None:
            raise IncompleteReplyError(str(reading.fault), replace(turn, is_final=False)) from reading.fault
        return turn

    async def _run(self, call: ToolCall, pending: Pending) -> tuple[InvocationId, ToolResult | None]:
        """Run a call; return its id, and its result if it has one."""
        if pending == "wait":
            (result,) = await self._runtime.batch([call], surface=self.surface)
            return result.invocation_id, result
        started = await (await self._runtime.calls.start(call, surface=self.surface)).idle()
        return started.id, await self._runtime.journal.result(started.id)

    async def _turn(self, read: ModelReply, ended: Sequence[tuple[InvocationId, ToolResult | None]]) -> ModelTurn:
        """Return the turn of a reply whose calls have ended or wait."""
        with suppress(ConfigError):  # a runtime that was closed meanwhile has results, but no surface
            self.surface = self._runtime.surfaces.current(self.surface)  # a call may have loaded tools
        self._built = None  # a call may have added tools, such as the one that reads stored output
        results = [result for _, result in ended if result is not None]
        waiting = [(read.calls[place], each) for place, (each, result) in enumerate(ended) if result is None]
        stored = await self._fetch(media_refs(results, self._accepted_media())) if not waiting else {}
        outputs = outputs_of(read.calls, results, stored) if not waiting else ()
        questions = await self._questions(frozenset(each for _, each in waiting))
        return ModelTurn(
            provider=self.provider,
            text=read.text,
            reply_messages=read.echo,
            result_messages=tuple(self._format.write(outputs)),
            calls=tuple(each.call for each in read.calls),
            results=tuple(results),
            pending=tuple(
                WaitingCall(invocation_id=each, tool_name=requested.call.name, approval=questions.get(each))
                for requested, each in waiting
            ),
            is_final=read.is_final,
            is_cut=read.is_cut,
            _requested=tuple((requested, each) for requested, (each, _) in zip(read.calls, ended, strict=True)),
        )

    async def _questions(self, wanted: Collection[InvocationId]) -> dict[InvocationId, Question]:
        """Return the open questions of some calls."""
        found: dict[InvocationId, Question] = {}
        last: ApprovalId | None = None
        while len(found) < len(wanted) and (page := await self._runtime.approvals.list(after=last)):
            found |= {each.invocation_id: each for each in page if each.invocation_id in wanted}
            last = page[-1].approval_id
        return found

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
        self.surface = await self._runtime.load(names, surface=self.surface)

    def _payload(self) -> ToolPayload:
        """Return the payload for the current surface; tools that a native search found stay deferred in it."""
        if self._built is None or self._built[0] != self.surface.surface_id:
            model, refs = self.surface.model_capabilities, self.surface.deferred_tools or ()
            limits, options = self._format.limits.for_model(model), self._options.for_model(model)
            is_native = fits_native_search(len(refs), limits, options)
            deferred = () if is_native else cast("Sequence[DeferredToolRef]", refs)
            offered = self._runtime.surfaces.offered(self.surface, deferred=not deferred)
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


@dataclass(slots=True)
class StreamReading:
    """Reads the events of a stream; what goes wrong with the stream is recorded and ends the reading.

    Attributes:
        fault: what went wrong.
        received: the last event.
        is_unexpected: it is no event of this API, and there was none before it.
    """

    provider: ProviderFormat
    payload: ToolPayload
    assembler: StreamAssembler
    callbacks: tuple[Callback | None, Callable[[str], object] | None]
    fault: Exception | None = None
    received: object = None
    is_unexpected: bool = False
    _count: int = field(default=0)
    _started: list[object] = field(default_factory=list[object])

    async def replies(self, stream: object) -> AsyncGenerator[ModelReply]:
        """Yield the reply so far whenever a part of it is complete, and at the end; then close the stream."""
        complete = 0
        async with aclosing(_events(stream)) as events:
            while await self._read(events):
                if self.assembler.complete != complete and not self.assembler.is_finished:
                    complete = self.assembler.complete
                    if (reply := self._reply()) is None:
                        return
                    yield reply
        if self.fault is None and not self.assembler.is_finished:
            advice = "the server may have sent a complete reply; check that it streams, or request no stream"
            ended = "before the reply was complete" if self._count else f"without an event: {advice}"
            self.fault = ReplyError(f"the stream ended {ended}")
        if self._count and (reply := self._reply()) is not None:
            yield reply

    def _reply(self) -> ModelReply | None:
        """Read the reply so far; return None if it cannot be answered, or if it changes a call that has started."""
        try:
            reply = read_reply(self.provider, self._whole_reply(), self.payload)
        except ReplyError as error:
            self.fault = self.fault or error
            return None
        asked: list[object] = [(each.call_id, each.call.name, each.call.arguments) for each in reply.calls]
        if asked[: len(self._started)] != self._started:
            self.fault = self.fault or ReplyError("the stream changed a call after it was complete")
            return None
        self._started = asked
        return reply

    def _whole_reply(self) -> Json:
        reply = self.assembler.reply()
        with suppress(RecursionError):  # nested too deeply; the runtime reports it
            return whole_characters(reply, is_lossy=False)
        return reply

    async def _read(self, events: AsyncIterator[object]) -> bool:
        """Read the next event and pass it to the callbacks; return False at the end, and if something went wrong."""
        try:
            self.received = await anext(events)
            text = self.assembler.add(self.received)
        except StopAsyncIteration:
            return False
        except Exception as error:  # noqa: BLE001 -- a stream is foreign code and may raise anything
            self.fault, self.is_unexpected = error, isinstance(error, ReplyError) and not self._count
            return False
        self._count += 1
        on_event, on_text = self.callbacks
        if on_event is not None:
            await _notify(on_event, self.received)
        if on_text is not None and text:
            await _notify(on_text, text)
        return True


async def _events(stream: object) -> AsyncGenerator[object]:
    """Read a stream and close it, also if it is not read to its end; one that blocks is read and closed in threads."""
    try:
        if isinstance(stream, AsyncIterable):
            async for event in cast("AsyncIterable[object]", stream):
                yield event
        else:
            rest = iter(cast("Iterable[object]", stream))
            while (event := await asyncio.to_thread(next, rest, _END)) is not _END:
                yield event
    finally:
        given = cast("object", stream)
        close: object = getattr(given, "aclose", None) or getattr(given, "close", None)
        if callable(close) and isinstance(stream, AsyncIterable):
            closed = close()
            if inspect.isawaitable(closed):
                await closed
        elif callable(close):
            with suppress(ValueError):  # a generator that a thread still runs cannot be closed
                await asyncio.to_thread(close)


async def _notify(callback: Callable[..., object], value: object) -> None:
    done = callback(value)
    if inspect.isawaitable(done):
        await done


def _is_stream(reply: object) -> bool:
    """Return whether this is an iterator of events; models of SDKs can be iterated, too, but are complete."""
    is_document = isinstance(reply, str | bytes | Mapping) or hasattr(reply, "model_dump")
    return isinstance(reply, AsyncIterable) or (isinstance(reply, Iterable) and not is_document)


def _check_pending(pending: str) -> None:
    if pending not in ("wait", "return"):
        raise ConfigError(f"pending is 'wait' or 'return', not {pending!r}")

"""`AsyncClient`, the client of the HTTP API, and `Client` with the same methods without `async`."""

import asyncio
import atexit
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, Self, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from agenttool.client.repeats import CALL_RETRIES, READ_RETRIES, SEND_ONCE, Repeats, pause
from agenttool.codec import json_bytes, parse_object, read
from agenttool.errors import ConfigError, GatewayError
from agenttool.http.client import HttpClient, RequestOptions
from agenttool.http.limiter import ConcurrencyLimits
from agenttool.http.ssrf import SsrfPolicy
from agenttool.records import Json, JsonObject, ToolResult, ToolSearchResult
from agenttool.server.access_messages import Me
from agenttool.server.messages import (
    MAX_PAGE,
    MAX_WAIT_S,
    AnswerReply,
    Approval,
    ApprovalList,
    BatchReply,
    CallDetail,
    CallList,
    CallReply,
    CallSummary,
    CancelReply,
    SourceList,
    ToolDetail,
    ToolPage,
    ToolSummary,
    TryReply,
    optional_member,
)
from agenttool.sync import LoopProxy, awaited, end_loop, iterated, run_on, start_loop

DEFAULT_URL = "http://127.0.0.1:8642"
MAX_REPLY_BYTES = 64_000_000
_TIMEOUT_S = MAX_WAIT_S + 30.0
_MAX_EVENT_BYTES = 1_000_000
_FIRST_ERROR = 400
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_S = TypeVar("_S")
_Item_co = TypeVar("_Item_co", covariant=True)


class GatewayEvent(NamedTuple):
    """One message of the event stream: ids and a summary; read details by id.

    Attributes:
        event: `ready`, `call`, `catalog`, `answer` or `reset`; after `reset`, read everything again.
        position: where the stream continues after this event.
        data: its members, as the reference of the HTTP API lists them.
    """

    event: str
    position: int
    data: JsonObject


class CallFilters(TypedDict, total=False):
    """Which calls `calls` and `iter_calls` return.

    Attributes:
        status: their status, such as `failed`.
        tool: the name of their tool; it accepts `*`.
        actor: the user or program that made them; it accepts `*`.
        since: the earliest time, in RFC 3339 or as a span such as `2h`.
        until: the latest time, in RFC 3339 or as a span.
        containing: text in their inputs or results, in any case.
        is_open: only calls that have not ended.
    """

    status: str | None
    tool: str | None
    actor: str | None
    since: str | None
    until: str | None
    containing: str | None
    is_open: bool


def json_value(member: msgspec.Raw) -> Json:
    """Return a member of a reply that is any JSON, such as `Approval.input`; None if it is absent."""
    found = optional_member(member)
    return None if found is None else msgspec.json.decode(found)


def result_of(call: CallReply) -> ToolResult | None:
    """Return the result of a call; None while the call is open."""
    found = optional_member(call.result)
    return None if found is None else read(found, ToolResult)


class ShownApproval(Protocol):
    """An approval as an approver saw it, such as an `Approval`."""

    approval_id: str
    shown_digest: str


class AsyncClient:
    """A client of one server, for code with an event loop: `async with AsyncClient(url, key=…) as gateway`."""

    def __init__(self, url: str = DEFAULT_URL, *, key: str | None = None, retries: int = CALL_RETRIES) -> None:
        """Take the address of the server, an API key or token, and how often a safe request is repeated.

        Requests that neither make a call nor wait for one are repeated at most three times.

        Raises:
            ConfigError: the address is not an http or https URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"not the address of a server: {url!r}; write one such as {DEFAULT_URL!r}")
        self._url = url.rstrip("/")
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._retries = retries
        limits = ConcurrencyLimits(total=1000, timeout_s=_TIMEOUT_S, queue_timeout_s=_TIMEOUT_S)
        self._http = HttpClient(SsrfPolicy.parse([parts.hostname]), limits=limits)

    async def __aenter__(self) -> Self:
        """Return this client; it connects with the first request."""
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        surface_id: str | None = None,
        thread: str | None = None,
        idempotency_key: str | None = None,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """Call a tool and wait for its result, also while the call waits for an approval.

        `thread` names a conversation of this caller; large results can be read back only in their conversation.
        A failed call is a result with `is_error`. The request has an idempotency key, so the call is made once.

        Raises:
            GatewayError: the server refused the request, or did not answer. It has the `invocation_id`, with which
                `wait` continues, or only the `idempotency_key`, with which `call` does.
            TimeoutError: the call has not ended in time; it continues, and `wait` waits for it.
        """
        repeats = self._keyed(idempotency_key, _deadline(timeout_s))
        body = _members(tool=tool, arguments=dict(arguments or {}), surface_id=surface_id, thread=thread)
        call = await self._start(body, _wait_s(repeats.deadline), repeats)
        return result_of(call) or await self._wait(repeats._replace(invocation_id=call.invocation_id))

    async def start(
        self,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        surface_id: str | None = None,
        thread: str | None = None,
        idempotency_key: str | None = None,
        wait_s: float = 0.0,
    ) -> CallReply:
        """Start a call and return its state, at once or after `wait_s`; `wait` returns its result."""
        body = _members(tool=tool, arguments=dict(arguments or {}), surface_id=surface_id, thread=thread)
        return await self._start(body, wait_s, self._keyed(idempotency_key))

    async def _start(self, body: JsonObject, wait_s: float, repeats: Repeats) -> CallReply:
        headers = {"Idempotency-Key": str(repeats.idempotency_key)}
        reply = await self._send(_path("/v1/calls", wait=wait_s), body, repeats, headers)
        return _decoded(reply, CallReply)

    async def wait(self, invocation_id: str, *, timeout_s: float | None = None) -> ToolResult:
        """Wait for the end of a call by long polling, and return its result.

        Raises:
            GatewayError: the server refused the request, or did not answer.
            TimeoutError: the call has not ended in time; it continues.
        """
        return await self._wait(Repeats(self._retries, _deadline(timeout_s), invocation_id))

    async def _wait(self, repeats: Repeats) -> ToolResult:
        while True:
            call = await self._read_call(repeats, _wait_s(repeats.deadline))
            if (result := result_of(call)) is not None:
                return result
            if repeats.deadline is not None and time.monotonic() >= repeats.deadline:
                raise TimeoutError(f"{call.invocation_id} has not ended in time ({call.status}); wait for it again")

    async def get(self, invocation_id: str, *, wait_s: float | None = None) -> CallDetail:
        """Return everything that is recorded of a call; with `wait_s`, once it has ended or after that time."""
        repeats = Repeats(self._retries) if wait_s else self._read_repeats
        return await self._read_call(repeats._replace(invocation_id=invocation_id), wait_s)

    async def _read_call(self, repeats: Repeats, wait_s: float | None) -> CallDetail:
        path = _path("/v1/calls", str(repeats.invocation_id), wait=wait_s)
        return _decoded(await self._send(path, repeats=repeats), CallDetail)

    async def calls(
        self,
        *,
        id_part: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        **filters: Unpack[CallFilters],
    ) -> CallList:
        """Return a page of at most `limit` calls: open ones, then ended ones. Pass its `next_cursor` for the next page.

        `id_part` is the beginning or the end of an id. It selects at most `limit` calls, on one page, the newest first.
        """
        is_open = "true" if filters.pop("is_open", False) else None
        path = _path("/v1/calls", open=is_open, id_part=id_part, limit=limit, cursor=cursor, **filters)
        return await self._get(path, CallList)

    async def iter_calls(self, **filters: Unpack[CallFilters]) -> AsyncGenerator[CallSummary]:
        """Yield all calls that the filters select, as `calls` lists them, page by page."""
        async for each in _all_pages(partial(self.calls, **filters)):
            yield each

    async def payload(self, invocation_id: str, digest: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return stored output of a call, or a range of it.

        `digest` is that of one of the call's `payloads`, which `get` returns, or of a reference in its result. A reply
        has at most 64 MB, and a range at most 16 MB: read a larger output in several ranges.

        Raises:
            ValueError: the range is empty, or starts before the output.
        """
        if start < 0 or (length is not None and length < 1):
            raise ValueError(
                f"no such range: start={start}, length={length}; start at 0 or later, and read a byte or more"
            )
        headers: dict[str, str] = {}
        if start or length is not None:
            headers["Range"] = f"bytes={start}-{'' if length is None else start + length - 1}"
        return await self._send(_path("/v1/results", invocation_id, "payloads", digest), headers=headers)

    async def cancel(self, invocation_id: str) -> CancelReply:
        """Request the cancellation of a call; the reply has `accepted`, and `wait` returns how the call ended."""
        return await self._post(_path("/v1/calls", invocation_id, "cancel"), {}, CancelReply, is_safe=True)

    async def batch(
        self, calls: Iterable[JsonObject], *, surface_id: str | None = None, timeout_s: float | None = None
    ) -> list[ToolResult]:
        """Make calls together: objects with `tool`, `arguments` and `depends_on`; return their results in order.

        It waits for all of them, also while calls wait for an approval. The request is sent once: after an error,
        `calls` shows which of them were made.

        Raises:
            GatewayError: the server refused the request, or did not answer.
            TimeoutError: a call has not ended in time; all calls continue, and `wait` waits for one.
        """
        deadline = _deadline(timeout_s)
        started = await self.start_batch(calls, surface_id=surface_id, wait_s=_wait_s(deadline))
        return [
            result_of(each) or await self._wait(Repeats(self._retries, deadline, each.invocation_id))
            for each in started
        ]

    async def start_batch(
        self, calls: Iterable[JsonObject], *, surface_id: str | None = None, wait_s: float = 0.0
    ) -> list[CallReply]:
        """Start calls together, as `batch` does, and return their states in order, at once or after `wait_s`."""
        body = _members(calls=list(calls), surface_id=surface_id)
        return (await self._post(_path("/v1/batches", wait=wait_s), body, BatchReply)).items

    async def approvals(self, *, tool: str | None = None, limit: int = 50, cursor: str | None = None) -> ApprovalList:
        """Return a page of the calls that wait for an answer, the oldest first."""
        return await self._get(_path("/v1/approvals", tool=tool, limit=limit, cursor=cursor), ApprovalList)

    async def iter_approvals(self, *, tool: str | None = None, after: str | None = None) -> AsyncGenerator[Approval]:
        """Yield all calls that wait for an answer, or those asked after one, the oldest first, page by page."""
        async for each in _all_pages(partial(self.approvals, tool=tool), after):
            yield each

    async def approval(self, approval_id: str) -> Approval:
        """Return one call that waits for an answer."""
        return await self._get(_path("/v1/approvals", approval_id), Approval)

    async def decide(
        self,
        approval: ShownApproval,
        answer: Literal["allow", "deny"],
        *,
        input: JsonObject | None = None,  # noqa: A002 -- as in `Runtime.approvals.decide`
        message: str | None = None,
        remember: JsonObject | None = None,
        scope: Literal["session", "store"] = "store",
    ) -> AnswerReply:
        """Answer an approval as it was shown: its digest goes with the answer.

        `input` runs other arguments, and `remember` adds a rule, such as one of the approval's `suggested_updates`.
        The answer is sent once.

        Raises:
            GatewayError: it was refused; `reason` is `answered`, `expired`, `own_call` or another code.
        """
        rule: JsonObject | None = None if remember is None else {"rule": remember, "scope": scope}
        body = _members(answer=answer, shown_digest=approval.shown_digest, input=input, message=message, remember=rule)
        return await self._post(_path("/v1/approvals", approval.approval_id), body, AnswerReply)

    async def tools(
        self,
        *,
        query: str | None = None,
        source: str | None = None,
        state: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ToolPage:
        """Return a page of tools by name; with `query`, the best matches first."""
        path = _path("/v1/tools", query=query, source=source, state=state, limit=limit, cursor=cursor)
        return await self._get(path, ToolPage)

    async def iter_tools(
        self, *, query: str | None = None, source: str | None = None, state: str | None = None
    ) -> AsyncGenerator[ToolSummary]:
        """Yield all tools by name, or with `query` the best matches first, page by page."""
        async for each in _all_pages(partial(self.tools, query=query, source=source, state=state)):
            yield each

    async def tool(self, name: str) -> ToolDetail:
        """Return one tool with its schema and records, by its qualified name or id."""
        return await self._get(_path("/v1/tools", name), ToolDetail)

    async def search(self, query: str, *, limit: int = 10, surface_id: str | None = None) -> ToolSearchResult:
        """Find tools as a model would: by words, `select:NAME` or `regex:PATTERN`."""
        body = _members(query=query, limit=limit, surface_id=surface_id)
        return read(await self._send("/v1/search", body), ToolSearchResult)

    async def try_policy(
        self, tool: str, arguments: JsonObject, *, actor: str | None = None, roles: Sequence[str] | None = None
    ) -> TryReply:
        """Return what the rules would decide about a call, which is not made; `roles` are those of the actor's key."""
        body = _members(tool=tool, arguments=arguments, actor=actor, roles=None if roles is None else [*roles])
        return await self._post("/v1/policy/try", body, TryReply, is_safe=True)

    async def sources(self) -> SourceList:
        """Return the state of the sources of tools."""
        return await self._get("/v1/sources", SourceList)

    async def me(self) -> Me:
        """Return the identity of this client, and information about the server."""
        return await self._get("/v1/me", Me)

    async def status(self) -> JsonObject:
        """Return what is waiting in the server: calls, prompts, approvals and sources."""
        return parse_object(await self._send("/v1/status"))

    async def events(self, after: int | None = None) -> AsyncGenerator[GatewayEvent]:
        """Follow the events after a position, or new ones; the first is `ready`. Lost connections are opened again.

        Raises:
            GatewayError: the credentials are refused or were revoked, or the server does not answer any more.
        """
        position, is_first, failures = after, True, 0
        while True:
            reader = asyncio.StreamReader(limit=_MAX_EVENT_BYTES)
            headers = {**self._headers, "Accept": "text/event-stream"}
            options = RequestOptions(reader=reader, send_once=True)
            url = self._url + _path("/v1/events", after=position)
            request = asyncio.ensure_future(self._http.get(url, headers, options=options))
            request.add_done_callback(lambda _, ended=reader: ended.feed_eof())
            try:
                async for event in _events_in(reader):
                    failures = 0
                    position = event.position
                    if event.event != "ready" or is_first:
                        yield event
                    is_first = False
                reply = await request
            finally:
                request.cancel()
            failures += 1
            await pause(reply, failures, self._read_repeats if is_first else Repeats(self._retries))

    @property
    def _read_repeats(self) -> Repeats:
        return Repeats(min(self._retries, READ_RETRIES))

    def _keyed(self, key: str | None, deadline: float | None = None) -> Repeats:
        return Repeats(self._retries, deadline, idempotency_key=key or secrets.token_hex(16))

    async def _get(self, path: str, kind: type[_S]) -> _S:
        return _decoded(await self._send(path), kind)

    async def _post(self, path: str, body: JsonObject, kind: type[_S], *, is_safe: bool = False) -> _S:
        return _decoded(await self._send(path, body, None if is_safe else SEND_ONCE), kind)

    async def _send(
        self,
        path: str,
        body: JsonObject | None = None,
        repeats: Repeats | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> bytes:
        """Send a request and return the body of its reply; repeat it after a failure if that is safe.

        Raises:
            GatewayError: the last reply was an error, or there was none.
        """
        repeats = (repeats or self._read_repeats)._replace(is_sent=False)
        url, options, failures = self._url + path, RequestOptions(send_once=repeats.retries is None), 0
        headers, encoded = {**self._headers, **headers}, None if body is None else json_bytes(body)
        while True:
            if encoded is None:
                reply = await self._http.get(url, headers, max_bytes=MAX_REPLY_BYTES, options=options)
            else:
                reply = await self._http.post(url, encoded, headers, max_bytes=MAX_REPLY_BYTES, options=options)
            if reply.status is not None and reply.status < _FIRST_ERROR:
                return reply.body
            failures += 1
            repeats = repeats._replace(is_sent=repeats.is_sent or reply.is_sent)
            await pause(reply, failures, repeats)


class _ItemPage(Protocol[_Item_co]):
    """A page of a list."""

    @property
    def items(self) -> Sequence[_Item_co]: ...
    @property
    def next_cursor(self) -> str | None: ...


class _FetchPage(Protocol[_Item_co]):
    """Returns a page."""

    async def __call__(self, *, limit: int, cursor: str | None) -> _ItemPage[_Item_co]: ...


async def _all_pages(fetch: _FetchPage[_Item_co], cursor: str | None = None) -> AsyncGenerator[_Item_co]:
    """Yield the items of all pages, or of those after a cursor."""
    is_last = False
    while not is_last:
        page = await fetch(limit=MAX_PAGE, cursor=cursor)
        for each in page.items:
            yield each
        cursor, is_last = page.next_cursor, page.next_cursor is None


def _members(**members: Json) -> JsonObject:
    """Return the members of a request body that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def _path(base: str, *parts: str, **query: object) -> str:
    words = urlencode({name: value for name, value in query.items() if value is not None})
    return "/".join((base, *(quote(each, safe="") for each in parts))) + (f"?{words}" if words else "")


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _wait_s(deadline: float | None) -> float:
    """Return how long one request may wait before a deadline."""
    return MAX_WAIT_S if deadline is None else min(max(deadline - time.monotonic(), 0.0), MAX_WAIT_S)


def _decoded(body: bytes, kind: type[_S]) -> _S:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        detail = f"the reply is not a {kind.__name__}: {error}; is this address a gateway of this version?"
        raise GatewayError(detail) from error


async def _events_in(reader: asyncio.StreamReader) -> AsyncGenerator[GatewayEvent]:
    """Parse server-sent events as this server writes them; comments, `retry` and `closed` are left out."""
    with suppress(asyncio.IncompleteReadError):
        while True:
            block = (await reader.readuntil(b"\n\n")).decode()
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "event" not in fields or "data" not in fields:
                continue
            data = parse_object(fields["data"])
            position = data.get("position")
            if isinstance(position, int):
                yield GatewayEvent(fields["event"], position, data)


class Client(LoopProxy[AsyncClient]):
    """A client of one server, for code without an event loop: `with Client(url, key=…) as gateway`."""

    def __init__(self, url: str = DEFAULT_URL, *, key: str | None = None, retries: int = CALL_RETRIES) -> None:
        """Take the address of the server, an API key or token, and how often a safe request is repeated.

        Requests that neither make a call nor wait for one are repeated at most three times.

        Raises:
            ConfigError: the address is not an http or https URL.
        """
        target = AsyncClient(url, key=key, retries=retries)
        loop, self._thread = start_loop()
        super().__init__(target, loop)
        atexit.register(self.close)

    def __enter__(self) -> Self:
        """Return this client; it connects with the first request."""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Close this client."""
        self.close()

    def close(self) -> None:
        """Close the connections and the event loop; closing it again does nothing."""
        if not self.loop.is_closed():
            atexit.unregister(self.close)
            run_on(self.loop, self.target.close())
            end_loop(self.loop, self._thread)

    call = awaited(AsyncClient.call)
    start = awaited(AsyncClient.start)
    wait = awaited(AsyncClient.wait)
    get = awaited(AsyncClient.get)
    calls = awaited(AsyncClient.calls)
    iter_calls = iterated(AsyncClient.iter_calls)
    payload = awaited(AsyncClient.payload)
    cancel = awaited(AsyncClient.cancel)
    batch = awaited(AsyncClient.batch)
    start_batch = awaited(AsyncClient.start_batch)
    approvals = awaited(AsyncClient.approvals)
    iter_approvals = iterated(AsyncClient.iter_approvals)
    approval = awaited(AsyncClient.approval)
    decide = awaited(AsyncClient.decide)
    tools = awaited(AsyncClient.tools)
    iter_tools = iterated(AsyncClient.iter_tools)
    tool = awaited(AsyncClient.tool)
    search = awaited(AsyncClient.search)
    try_policy = awaited(AsyncClient.try_policy)
    sources = awaited(AsyncClient.sources)
    me = awaited(AsyncClient.me)
    status = awaited(AsyncClient.status)
    events = iterated(AsyncClient.events)

"""The client of the HTTP API for other processes: `Client`, and `AsyncClient` with the same methods.

```python
from agenttool.client import Client

with Client("http://127.0.0.1:8642", key="atk_…") as gateway:
    print(gateway.call("files.read_file", {"name": "welcome.txt"}).text)
```

A request is repeated after a failure only if that is safe: it changes nothing, or it has an idempotency key.
A request that makes a call or waits for one is repeated for about 30 seconds, which outlasts a restart of the server.
"""

import asyncio
import atexit
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from agenttool.adapters.rap.http_client import ACCEPTED, HttpClient, HttpReply, RequestOptions
from agenttool.adapters.rap.limiter import ConcurrencyLimits
from agenttool.adapters.ssrf import SsrfPolicy
from agenttool.codec import json_bytes, parse_object, read
from agenttool.errors import ConfigError, GatewayError, RecordError
from agenttool.records import Json, JsonObject, ToolResult, ToolSearchResult
from agenttool.server.access_messages import Me
from agenttool.server.messages import (
    MAX_WAIT_S,
    AnswerReply,
    Approval,
    ApprovalList,
    BatchReply,
    CallDetail,
    CallList,
    CallReply,
    CancelReply,
    SourceList,
    ToolDetail,
    ToolPage,
    TryReply,
    optional_member,
)
from agenttool.sync import LoopProxy, awaited, end_loop, iterated, run_on, start_loop

DEFAULT_URL = "http://127.0.0.1:8642"
FIRST_DELAY_S, MAX_DELAY_S = 0.25, 8.0
"""The delay before a request is repeated, which doubles up to the second value."""

CALL_RETRIES, READ_RETRIES = 12, 3
"""How often a request is repeated: one that makes a call or waits for one, and another one that changes nothing.

With random delays the first takes about 30 seconds, so that a call outlasts a restart of the server. The second takes
about a second, so that a wrong address is reported at once.
"""

MAX_RETRY_AFTER_S = 60.0
"""The longest `Retry-After` that the client accepts; with a longer one, the request fails at once."""

MAX_REPLY_BYTES = 64_000_000
_TIMEOUT_S = MAX_WAIT_S + 30.0
_MAX_EVENT_BYTES = 1_000_000
_REPEATED = frozenset((ACCEPTED, 408, 425, 429, 500, 502, 503, 504))
"""The statuses after which a request may be repeated; an event stream that ends early has the status 200."""

_FIRST_ERROR = 400
_S = TypeVar("_S")


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


def json_value(member: msgspec.Raw) -> Json:
    """Return a member of a reply that is any JSON, such as `Approval.input`; None if it is absent."""
    found = optional_member(member)
    return None if found is None else msgspec.json.decode(found)


def result_of(call: CallReply) -> ToolResult | None:
    """Return the result of a call; None while the call is open."""
    found = optional_member(call.result)
    return None if found is None else read(found, ToolResult)


class _Repeats(NamedTuple):
    """How a request is repeated, and the call that it is about.

    Attributes:
        retries: how often it may be repeated; None if it must be sent once.
        deadline: it is not repeated after this moment of the monotonic clock.
        invocation_id: the call that it waits for.
        idempotency_key: the key that the call was made with.
    """

    retries: int | None
    deadline: float | None = None
    invocation_id: str | None = None
    idempotency_key: str | None = None


_SEND_ONCE = _Repeats(None)


class AsyncClient:
    """A client of one server, for code with an event loop: `async with AsyncClient(url, key=…) as gateway`."""

    def __init__(self, url: str = DEFAULT_URL, *, key: str | None = None, retries: int = CALL_RETRIES) -> None:
        """Take the address of the server, an API key or token, and how often a safe request is repeated.

        Requests that neither make a call nor wait for one are repeated three times at most.

        Raises:
            ConfigError: the address is not one of http or https.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"not the address of a server: {url!r}; write one such as {DEFAULT_URL!r}")
        self._url = url.rstrip("/")
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._retries = retries
        limits = ConcurrencyLimits(
            total=1000, per_owner=1000, per_key=1000, timeout_s=_TIMEOUT_S, queue_timeout_s=_TIMEOUT_S
        )
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
        repeats = self._repeats(_deadline(timeout_s), key=idempotency_key or secrets.token_hex(16))
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
        return await self._start(body, wait_s, self._repeats(key=idempotency_key or secrets.token_hex(16)))

    async def _start(self, body: JsonObject, wait_s: float, repeats: _Repeats) -> CallReply:
        headers = {**self._headers, "Idempotency-Key": str(repeats.idempotency_key)}
        reply = await self._send(_path("/v1/calls", wait=wait_s), json_bytes(body), headers, repeats)
        return _decoded(reply, CallReply)

    async def wait(self, invocation_id: str, *, timeout_s: float | None = None) -> ToolResult:
        """Wait for the end of a call by long polling, and return its result.

        Raises:
            GatewayError: the server refused the request, or did not answer.
            TimeoutError: the call has not ended in time; it continues.
        """
        return await self._wait(self._repeats(_deadline(timeout_s), invocation_id=invocation_id))

    async def _wait(self, repeats: _Repeats) -> ToolResult:
        while True:
            call = await self._read_call(repeats, _wait_s(repeats.deadline))
            if (result := result_of(call)) is not None:
                return result
            if repeats.deadline is not None and time.monotonic() >= repeats.deadline:
                raise TimeoutError(f"{call.invocation_id} has not ended in time ({call.status}); wait for it again")

    async def get(self, invocation_id: str, *, wait_s: float | None = None) -> CallDetail:
        """Return everything that is recorded of a call; with `wait_s`, once it has ended or after that time."""
        repeats = self._repeats() if wait_s else self._read_repeats
        return await self._read_call(repeats._replace(invocation_id=invocation_id), wait_s)

    async def _read_call(self, repeats: _Repeats, wait_s: float | None) -> CallDetail:
        path = _path("/v1/calls", str(repeats.invocation_id), wait=wait_s)
        return _decoded(await self._send(path, None, self._headers, repeats), CallDetail)

    async def calls(  # noqa: PLR0913 -- one for each filter
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        actor: str | None = None,
        since: str | None = None,
        until: str | None = None,
        containing: str | None = None,
        is_open: bool = False,
        id_part: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> CallList:
        """Return a page of calls, open ones first, then the newest; pass its `next_cursor` for the next page.

        `id_part` is the beginning or the end of an id. It selects at most `limit` calls, on one page, the newest first.
        """
        path = _path(
            "/v1/calls",
            status=status,
            tool=tool,
            actor=actor,
            since=since,
            until=until,
            containing=containing,
            open="true" if is_open else None,
            id_part=id_part,
            limit=limit,
            cursor=cursor,
        )
        return _decoded(await self._get(path), CallList)

    async def cancel(self, invocation_id: str) -> CancelReply:
        """Request the cancellation of a call; the reply has `accepted`, and `wait` returns how the call ended."""
        return _decoded(await self._post(_path("/v1/calls", invocation_id, "cancel"), {}, is_safe=True), CancelReply)

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
            result_of(each) or await self._wait(self._repeats(deadline, invocation_id=each.invocation_id))
            for each in started
        ]

    async def start_batch(
        self, calls: Iterable[JsonObject], *, surface_id: str | None = None, wait_s: float = 0.0
    ) -> list[CallReply]:
        """Start calls together, as `batch` does, and return their states in order, at once or after `wait_s`."""
        body = _members(calls=list(calls), surface_id=surface_id)
        return _decoded(await self._post(_path("/v1/batches", wait=wait_s), body), BatchReply).items

    async def approvals(self, *, tool: str | None = None, limit: int = 50, cursor: str | None = None) -> ApprovalList:
        """Return a page of the calls that wait for an answer, the oldest first."""
        return _decoded(await self._get(_path("/v1/approvals", tool=tool, limit=limit, cursor=cursor)), ApprovalList)

    async def approval(self, approval_id: str) -> Approval:
        """Return one call that waits for an answer."""
        return _decoded(await self._get(_path("/v1/approvals", approval_id)), Approval)

    async def decide(
        self,
        approval: Approval,
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
        return _decoded(await self._post(_path("/v1/approvals", approval.approval_id), body), AnswerReply)

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
        return _decoded(await self._get(path), ToolPage)

    async def tool(self, name: str) -> ToolDetail:
        """Return one tool with its schema and records, by its qualified name or id."""
        return _decoded(await self._get(_path("/v1/tools", name)), ToolDetail)

    async def search(self, query: str, *, limit: int = 10, surface_id: str | None = None) -> ToolSearchResult:
        """Find tools as a model would: by words, `select:NAME` or `regex:PATTERN`."""
        body = _members(query=query, limit=limit, surface_id=surface_id)
        return read(await self._post("/v1/search", body, is_safe=True), ToolSearchResult)

    async def try_policy(
        self, tool: str, arguments: JsonObject, *, actor: str | None = None, roles: Sequence[str] | None = None
    ) -> TryReply:
        """Return what the rules would decide about a call, which is not made; `roles` are those of the actor's key."""
        body = _members(tool=tool, arguments=arguments, actor=actor, roles=None if roles is None else [*roles])
        return _decoded(await self._post("/v1/policy/try", body, is_safe=True), TryReply)

    async def sources(self) -> SourceList:
        """Return the state of the sources of tools."""
        return _decoded(await self._get("/v1/sources"), SourceList)

    async def me(self) -> Me:
        """Return the identity of this client, and information about the server."""
        return _decoded(await self._get("/v1/me"), Me)

    async def status(self) -> JsonObject:
        """Return what is waiting in the server: calls, prompts, approvals and sources."""
        return parse_object(await self._get("/v1/status"))

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
            await _pause(reply, failures, self._read_repeats if is_first else self._repeats())

    @property
    def _read_repeats(self) -> _Repeats:
        return _Repeats(min(self._retries, READ_RETRIES))

    def _repeats(
        self, deadline: float | None = None, *, invocation_id: str | None = None, key: str | None = None
    ) -> _Repeats:
        return _Repeats(self._retries, deadline, invocation_id, key)

    async def _get(self, path: str) -> bytes:
        return await self._send(path, None, self._headers, self._read_repeats)

    async def _post(self, path: str, body: JsonObject, *, is_safe: bool = False) -> bytes:
        return await self._send(path, json_bytes(body), self._headers, self._read_repeats if is_safe else _SEND_ONCE)

    async def _send(self, path: str, body: bytes | None, headers: Mapping[str, str], repeats: _Repeats) -> bytes:
        """Send a request and return the body of its reply; repeat it after a failure if that is safe.

        Raises:
            GatewayError: the last reply was an error, or there was none.
        """
        url, options, failures = self._url + path, RequestOptions(send_once=repeats.retries is None), 0
        while True:
            if body is None:
                reply = await self._http.get(url, headers, max_bytes=MAX_REPLY_BYTES, options=options)
            else:
                reply = await self._http.post(url, body, headers, max_bytes=MAX_REPLY_BYTES, options=options)
            if reply.status is not None and reply.status < _FIRST_ERROR:
                return reply.body
            failures += 1
            await _pause(reply, failures, repeats)


async def _pause(reply: HttpReply, failures: int, repeats: _Repeats) -> None:
    """Wait before a request is repeated; raise its error if that is not safe, too late, or it failed too often."""
    delay_s = reply.delay_s(failures, first_s=FIRST_DELAY_S, max_s=MAX_DELAY_S)
    is_late = repeats.deadline is not None and time.monotonic() + delay_s > repeats.deadline
    if is_late or failures > (repeats.retries or 0) or not _may_repeat(reply):
        raise _error_of(reply, repeats)
    await asyncio.sleep(delay_s)


def _members(**members: Json) -> JsonObject:
    """Return the members of a request body that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def _path(base: str, *parts: str, **query: str | float | None) -> str:
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


def _may_repeat(reply: HttpReply) -> bool:
    if reply.is_refused or reply.retry_after_s > MAX_RETRY_AFTER_S:
        return False
    return reply.status is None or reply.status in _REPEATED


def _error_of(reply: HttpReply, repeats: _Repeats) -> GatewayError:
    """Return the exception of a problem document, or of a reply that is none."""
    problem: JsonObject = {}
    if reply.status is None:
        detail = f"the server did not answer: {reply.fault}; check its address and that it runs"
    else:
        with suppress(RecordError):
            problem = parse_object(reply.body)
        detail = f"the server answered {reply.status}"
    texts = {name: value for name, value in problem.items() if isinstance(value, str)}
    remedy = _remedy(repeats) if _may_repeat(reply) else ""
    return GatewayError(
        texts.get("detail", detail) + remedy,
        status=reply.status,
        pointer=texts.get("pointer"),
        reason=texts.get("reason"),
        members=problem,
        invocation_id=repeats.invocation_id,
        idempotency_key=repeats.idempotency_key,
    )


def _remedy(repeats: _Repeats) -> str:
    """Return how to continue with a call whose outcome is not known."""
    if repeats.invocation_id is not None:
        return f"; the call was made, so wait for {repeats.invocation_id!r} instead of calling again"
    if repeats.idempotency_key is not None:
        return f"; the call may run, so call again only with the idempotency key {repeats.idempotency_key!r}"
    return ""


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

        Requests that neither make a call nor wait for one are repeated three times at most.

        Raises:
            ConfigError: the address is not one of http or https.
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
    cancel = awaited(AsyncClient.cancel)
    batch = awaited(AsyncClient.batch)
    start_batch = awaited(AsyncClient.start_batch)
    approvals = awaited(AsyncClient.approvals)
    approval = awaited(AsyncClient.approval)
    decide = awaited(AsyncClient.decide)
    tools = awaited(AsyncClient.tools)
    tool = awaited(AsyncClient.tool)
    search = awaited(AsyncClient.search)
    try_policy = awaited(AsyncClient.try_policy)
    sources = awaited(AsyncClient.sources)
    me = awaited(AsyncClient.me)
    status = awaited(AsyncClient.status)
    events = iterated(AsyncClient.events)

"""The HTTP side of a provider: decode, hand on, answer at once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agenttool.adapters.rap.forgery import check_url
from agenttool.adapters.rap.wire import (
    CancelToolCall,
    CloseThread,
    Invocation,
    Manifest,
    Migrate,
    ReturnAddress,
    read,
    write,
)
from agenttool.errors import RecordError, StoreError
from agenttool.rap.admission import Admission
from agenttool.rap.asking import CHOICES_PATH
from agenttool.rap.governed import governed_tools
from agenttool.rap.keeping.calls import NewCall
from agenttool.rap.live import Live, opened
from agenttool.rap.oauth import OAUTH_PATH
from agenttool.rap.settings import Settings

INVOKE_PATH = "/invoke"
_JSON = "application/json"
_FULL = "too many calls are under way; try again later"
_MOST_BASES = 100
"""So many of the names that callers know this server by are remembered; it only saves time."""

_M = TypeVar("_M")
_Handler = Callable[[Request], Awaitable[Response]]


class Door:
    """What each path does. Every answer is short and tells nothing of what is behind it."""

    def __init__(self, settings: Settings) -> None:
        """Take the provider whose door this is."""
        self._settings = settings
        self._admission = Admission(settings)
        self._live: Live | None = None
        self._bases: dict[tuple[str, str | None, str], str] = {}

    @property
    def live(self) -> Live:
        """The provider that runs behind the door.

        Raises:
            HTTPException: it does not run yet, or no more.
        """
        if self._live is None:
            raise HTTPException(503, "the provider is not running")
        return self._live

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncGenerator[None]:
        """Run the provider while the server does: it is ready before the first request."""
        async with AsyncExitStack() as stack:
            for open_runtime in self._settings.governed:
                runtime = await stack.enter_async_context(open_runtime())
                for tool in await governed_tools(runtime):
                    stack.callback(self._settings.withdraw, self._settings.offer(tool))
            self._live = await stack.enter_async_context(opened(self._settings))
            try:
                yield
            finally:
                self._live = None

    def routes(self) -> list[Route]:
        """List the paths."""
        notices: dict[str, _Handler] = {
            INVOKE_PATH: self.invoke,
            "/close_thread": self.close_thread,
            "/cancel_tool_call": self.cancel_tool_call,
            f"{CHOICES_PATH}{{token}}": self.select,
        }
        if self._settings.on_migrate:
            notices["/migrate"] = self.migrate
        return [
            Route("/.well-known/rap-toolset", self.discover, methods=["GET"]),
            *(Route(path, handler, methods=["POST"]) for path, handler in notices.items()),
            *([Route(f"{OAUTH_PATH}{{client}}", self.grant, methods=["GET"])] if self._settings.clients else []),
        ]

    async def discover(self, request: Request) -> Response:
        """Give the manifest as it is now."""
        settings = self._settings
        await self._admission.caller_of(request, b"", self.live.take_once)
        manifest = Manifest(
            name=settings.name,
            description=settings.description,
            endpoint=f"{self._base_url(request)}{INVOKE_PATH}",
            needs_migration=bool(settings.on_migrate),
            tools=tuple(tool.definition for tool in settings.tools.values()),
        )
        return Response(write(manifest), media_type=_JSON)

    async def invoke(self, request: Request) -> Response:
        """Take on a call. One that makes no sense is taken on, too, as long as it says where its result may go."""
        caller, body = await self._message(request)
        if self.live.is_full_for(caller):
            raise HTTPException(503, _FULL)
        try:
            message = read(body, Invocation)
            flaw, call_id = "", message.call_id
        except RecordError as error:
            message = _read(body, ReturnAddress)
            flaw, call_id = f"the invocation is malformed: {error}", message.echo
        try:
            check_url(message.callback_url, self._settings.reach)
        except RecordError as error:
            raise HTTPException(400, f"callback_url: {error}") from None
        call = NewCall(
            caller=caller,
            thread=message.group_id,
            id=message.id,
            call_id=call_id,
            callback_url=message.callback_url,
            base_url=self._base_url(request),
            body=body,
            ancestors=(message.thread_ancestors or ()) if isinstance(message, Invocation) else (),
        )
        if isinstance(message, Invocation):
            is_taken = await self.live.accept(call, message)
        else:
            is_taken = await self.live.refuse(call, flaw)
        if not is_taken:
            raise HTTPException(503, _FULL)
        return Response()

    async def take(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one invocation without the layers around the other paths, which cost more than what it takes."""
        request = Request(scope, receive)
        try:
            response = await self.invoke(request)
        except HTTPException as error:
            response = await _refused(request, error)
        except StoreError as error:
            response = await _failing(request, error)
        await response(scope, receive, send)

    async def cancel_tool_call(self, request: Request) -> Response:
        """Take a cancellation; the answer is the same whether or not there is such a call."""
        caller, body = await self._message(request)
        notice = _read(body, CancelToolCall)
        await self.live.cancel(caller, notice.thread_id, notice.tool_call_id)
        return Response()

    async def close_thread(self, request: Request) -> Response:
        """Take a closure; the answer is the same whether or not there was such a thread."""
        caller, body = await self._message(request)
        await self.live.close_thread(caller, _read(body, CloseThread).thread_id)
        return Response()

    async def migrate(self, request: Request) -> Response:
        """Move a session, and answer when it has moved, or why it has not."""
        caller, body = await self._message(request)
        notice = _read(body, Migrate)
        try:
            check_url(notice.destination_url, self._settings.reach)
        except RecordError as error:
            raise HTTPException(400, f"destination_url: {error}") from None
        fault = await self.live.migrate(caller, notice)
        return Response() if fault is None else PlainTextResponse(fault, 502)

    async def select(self, request: Request) -> Response:
        """Take a selection; the URL itself, which nobody can guess, says who may make it."""
        body = await self._body(request)
        if not await self.live.select(cast("str", request.path_params["token"]), body):
            raise HTTPException(400, "not a selection: send 'id' and 'selected'")
        return Response()

    async def grant(self, request: Request) -> Response:
        """Take a user back from an authorization page; the state, which nobody can guess, says for which call."""
        query = request.query_params
        if not await self.live.grant(query.get("state", ""), query.get("code")):
            raise HTTPException(400, "this authorization is not expected, or no more; ask for it again")
        return PlainTextResponse("Thank you. You may close this window.")

    async def _message(self, request: Request) -> tuple[str, bytes]:
        body = await self._body(request)
        return await self._admission.caller_of(request, body, self.live.take_once), body

    async def _body(self, request: Request) -> bytes:
        """Read a JSON body, as long as it is no longer than allowed and arrives in time."""
        kind = request.headers.get("content-type", _JSON).partition(";")[0].strip().lower()
        if kind != _JSON:
            raise HTTPException(415, f"send {_JSON}")
        limits, body = self._settings.limits, bytearray()
        try:
            async with asyncio.timeout(limits.body_s):
                async for piece in request.stream():
                    body += piece
                    if len(body) > limits.max_body_bytes:
                        raise HTTPException(413, f"send at most {limits.max_body_bytes} bytes")
        except TimeoutError:
            raise HTTPException(408, "the request took too long to arrive") from None
        except ClientDisconnect:
            raise HTTPException(400, "the request was cut off") from None
        return bytes(body)

    def _base_url(self, request: Request) -> str:
        if self._settings.url is not None:
            return self._settings.url
        asked = (str(request.scope["scheme"]), request.headers.get("host"), str(request.scope.get("root_path", "")))
        if asked not in self._bases:
            if len(self._bases) >= _MOST_BASES:
                self._bases.clear()
            below = request.url.replace(path=asked[2], query="", fragment="")  # also where another app holds this one
            self._bases[asked] = str(below).rstrip("/")
        return self._bases[asked]


def is_invocation(scope: Scope) -> bool:
    """Tell whether a request is for the path that calls come to, which nearly all are."""
    is_posted = scope["type"] == "http" and scope["method"] == "POST"
    return is_posted and scope["path"].removeprefix(scope.get("root_path", "")) == INVOKE_PATH


def make_app(door: Door) -> Starlette:
    """Make the ASGI app of a provider."""
    handlers = {HTTPException: _refused, StoreError: _failing}
    return Starlette(routes=door.routes(), lifespan=door.lifespan, exception_handlers=handlers)  # pyright: ignore[reportArgumentType] -- starlette types handlers by their widest exception


async def _refused(request: Request, error: HTTPException) -> Response:
    return PlainTextResponse(error.detail, error.status_code, error.headers)


async def _failing(request: Request, error: StoreError) -> Response:
    """Accept nothing that cannot be kept."""
    return PlainTextResponse("the provider cannot keep anything now; try again later", 503)


def _read(body: bytes, kind: type[_M]) -> _M:
    try:
        return read(body, kind)
    except RecordError as error:
        raise HTTPException(400, str(error)) from None

"""The HTTP side of a provider: it authenticates callers, decodes requests, and answers at once."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ExceptionHandler, Scope

from agenttool.adapters.rap import wire
from agenttool.adapters.rap.credentials import CredentialRequest, Signed
from agenttool.errors import RecordError, StoreError
from agenttool.http.request_body import is_json, read_body
from agenttool.http.request_guard import BROWSER_HEADERS
from agenttool.http.ssrf import check_url
from agenttool.rap.call import CHOICES_PATH
from agenttool.rap.oauth import OAUTH_PATH
from agenttool.rap.service import ProviderService, open_service
from agenttool.rap.settings import ProviderSettings
from agenttool.rap.tables import NewCall

INVOKE_PATH = "/invoke"
_JSON = "application/json"
_FULL = "too many calls are open; try again later"

_log = logging.getLogger(__name__)

_Handler = Callable[[Request], Awaitable[Response]]


def request_url(scope: Scope, base: str | None) -> str | None:
    """Return the URL of a request as this server knows it; None if it does not.

    The Host header is not used: a request that was signed for another server could then be replayed here. Without a
    base URL the bound address is used, which is right only for callers that connect to it directly.
    """
    query = scope["query_string"].decode("latin-1")
    suffix = f"?{query}" if query else ""
    if base is not None:
        return f"{base}{scope['path'].removeprefix(scope.get('root_path', ''))}{suffix}"
    host, port = scope.get("server") or (None, None)
    if host is None or port is None:
        return None
    return f"{scope['scheme']}://{f'[{host}]' if ':' in host else host}:{port}{scope['path']}{suffix}"


class ProviderEndpoints:
    """The handlers of each path. Every answer is short and reveals nothing of the state behind it."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings
        self._service: ProviderService | None = None

    @property
    def service(self) -> ProviderService:
        """The running provider.

        Raises:
            HTTPException: it is not running.
        """
        if self._service is None:
            raise HTTPException(503, "the provider is not running")
        return self._service

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncGenerator[None]:
        """Run the provider while the server runs; it is ready before the first request."""
        async with AsyncExitStack() as stack:
            for open_tools in self._settings.runtimes:
                for tool in await stack.enter_async_context(open_tools()):
                    stack.callback(self._settings.tools.pop, self._settings.add_tool(tool))
            self._service = await stack.enter_async_context(open_service(self._settings))
            try:
                yield
            finally:
                self._service = None

    def app(self) -> Starlette:
        """Return the ASGI app, with the routes that the settings need."""
        posts: dict[str, _Handler] = {
            INVOKE_PATH: self.invoke,
            "/close_thread": self.close_thread,
            "/cancel_tool_call": self.cancel_tool_call,
            f"{CHOICES_PATH}{{token}}": self.select,
        }
        if self._settings.on_migrate:
            posts["/migrate"] = self.migrate
        routes = [
            Route("/.well-known/rap-toolset", self.discover, methods=["GET"]),
            *(Route(path, handler, methods=["POST"]) for path, handler in posts.items()),
            *([Route(f"{OAUTH_PATH}{{client}}", self.redeem, methods=["GET"])] if self._settings.clients else []),
        ]
        handlers: dict[type[Exception], ExceptionHandler] = {StoreError: _report, RecordError: _report}
        return Starlette(routes=routes, lifespan=self.lifespan, exception_handlers=handlers)

    async def discover(self, request: Request) -> Response:
        """Return the manifest."""
        settings = self._settings
        await self._authenticate(request, b"")
        manifest = wire.Manifest(
            name=settings.name,
            description=settings.description,
            endpoint=f"{self._base_url(request)}{INVOKE_PATH}",
            needs_migration=bool(settings.on_migrate),
            tools=tuple(tool.definition for tool in settings.tools.values()),
        )
        return Response(wire.write(manifest), media_type=_JSON)

    async def invoke(self, request: Request) -> Response:
        """Accept a call. A malformed one is accepted, too, if it says where its error result may go."""
        caller, body = await self._read_message(request)
        if self.service.quota.is_exhausted_for(caller):
            raise HTTPException(503, _FULL)
        try:
            message = wire.read(body, wire.Invocation)
            error, call_id = "", message.call_id
        except RecordError as malformed:
            message = wire.read(body, wire.ReturnAddress)
            error, call_id = f"the invocation is malformed: {malformed}", message.echo
        self._check_url("callback_url", message.callback_url)
        call = NewCall(
            caller=caller,
            thread=message.group_id,
            id=message.id,
            call_id=call_id,
            callback_url=message.callback_url,
            base_url=self._base_url(request),
            body=body,
        )
        if isinstance(message, wire.Invocation):
            is_accepted = await self.service.accept(call, message)
        else:
            is_accepted = await self.service.accept_error(call, error)
        if not is_accepted:
            raise HTTPException(503, _FULL)
        return Response()

    async def cancel_tool_call(self, request: Request) -> Response:
        """Process a cancellation; the answer is the same whether or not the call exists."""
        caller, body = await self._read_message(request)
        notice = wire.read(body, wire.CancelToolCall)
        await self.service.cancel(caller, notice.thread_id, notice.tool_call_id)
        return Response()

    async def close_thread(self, request: Request) -> Response:
        """Process the closure of a thread; the answer is the same whether or not the thread exists."""
        caller, body = await self._read_message(request)
        await self.service.close_thread(caller, wire.read(body, wire.CloseThread).thread_id)
        return Response()

    async def migrate(self, request: Request) -> Response:
        """Move a session, and answer when it is moved or has failed."""
        caller, body = await self._read_message(request)
        notice = wire.read(body, wire.Migrate)
        self._check_url("destination_url", notice.destination_url)
        fault = await self.service.migrate(caller, notice)
        return Response() if fault is None else PlainTextResponse(fault, 502)

    async def select(self, request: Request) -> Response:
        """Process a selection; the unguessable URL authenticates it."""
        body = await self._read_body(request)
        if not await self.service.questions.select(str(request.path_params["token"]), body):
            raise HTTPException(400, "not a selection: send 'id' and 'selected'")
        return Response()

    async def redeem(self, request: Request) -> Response:
        """Process a user's return from an authorization page; the unguessable state identifies the call."""
        query = request.query_params
        if not await self.service.redeem(query.get("state", ""), query.get("code")):
            raise HTTPException(400, "no such authorization is pending; ask for it again")
        return PlainTextResponse("Thank you. You may close this window.")

    async def _read_message(self, request: Request) -> tuple[str, bytes]:
        body = await self._read_body(request)
        return await self._authenticate(request, body), body

    async def _read_body(self, request: Request) -> bytes:
        """Return a JSON body within the limits of size and time."""
        if not is_json(request.headers.get("content-type", _JSON)):
            raise HTTPException(415, f"send {_JSON}")
        limits = self._settings.limits
        return await read_body(request.headers, request.receive, limits.max_body_bytes, timeout_s=limits.body_s)

    async def _authenticate(self, request: Request, body: bytes) -> str:
        """Return the name of the caller, before anything in the body is decoded.

        Raises:
            HTTPException: it is unknown, or the request is a replay.
        """
        admits = self._settings.admits
        if admits is None:
            # A browser sends a body without a content type without asking the server first.
            if not BROWSER_HEADERS.isdisjoint(name for name, _ in request.headers.raw):
                raise HTTPException(403, "web pages may not call; give the provider `auth`, and present it")
            return ""
        headers = {name.lower(): value for name, value in request.headers.items()}
        url = request_url(request.scope, self._settings.url)
        presented = CredentialRequest(method=request.method, url=url, headers=headers, body=body)
        caller = admits.caller_of(presented)
        if not isinstance(admits, Signed):
            if caller is None:
                raise HTTPException(401, "not authorized", {"WWW-Authenticate": "Bearer"})
            return caller
        if caller is None or not await self.service.claim_nonce(*admits.nonce_of(presented)):
            reason = admits.rejection_reason(presented)
            _log.warning("a request was not authorized: %s", reason)
            raise HTTPException(401, f"not authorized: {reason}", {"WWW-Authenticate": admits.challenge})
        return caller

    def _check_url(self, member: str, url: str) -> None:
        try:
            check_url(url, self._settings.policy)
        except RecordError as error:
            raise HTTPException(400, f"{member}: {error}") from None

    def _base_url(self, request: Request) -> str:
        """Return the base URL of this server; `root_path` is its path inside another app."""
        root_path = str(request.scope.get("root_path", ""))
        return self._settings.url or str(request.url.replace(path=root_path, query="", fragment="")).rstrip("/")


async def _report(request: Request, error: Exception) -> Response:
    if isinstance(error, StoreError):
        return PlainTextResponse("the provider cannot store anything now; try again later", 503)
    return PlainTextResponse(str(error), 400)

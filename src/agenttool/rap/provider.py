"""`Provider`: a RAP tool server made from functions."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TypeVar, Unpack, overload

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from agenttool.adapters.rap.credentials import (
    Credential,
    Signed,
    SigningSide,
    origin_of,
)
from agenttool.adapters.rap.wire import ToolDefinition
from agenttool.errors import ConfigError, RecordError
from agenttool.http.headers import check_headers
from agenttool.http.ssrf import SsrfPolicy
from agenttool.rap.app import ProviderEndpoints
from agenttool.rap.declare import RapTool, RapToolOptions, declare
from agenttool.rap.limits import Limits
from agenttool.rap.oauth import Cipher, OAuthClient
from agenttool.rap.runtime_tools import open_runtime_tools
from agenttool.rap.settings import CleanUp, Move, ProviderSettings
from agenttool.rap.tool_api import Event
from agenttool.runtime import Runtime

_F = TypeVar("_F", bound=Callable[..., object])

_MAX_NAME = 128


class Provider:
    """A toolset and its server: decorate functions, then serve it as an ASGI app.

    A call is stored before it is acknowledged, runs in the background, and ends in one result, also if this process
    crashes. A function that was running at a crash is not run again, unless it is declared `idempotent` or
    `read_only`; its caller gets an error that says that its outcome is unknown.

    Attributes:
        settings: its configuration, such as `settings.url`; they may be changed until it runs.
    """

    def __init__(  # noqa: PLR0913 -- the settings of a provider, each with a default
        self,
        name: str,
        *,
        description: str | None = None,
        store: str | Path | None = None,
        url: str | None = None,
        auth: Credential | None = None,
        sign: Credential | None = None,
        sign_to: Iterable[str] = (),
        allow: Iterable[str] = (),
        https_only: bool = False,
        clients: Iterable[OAuthClient] = (),
        cipher: Cipher | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Create a provider without tools.

        Args:
            name: of the toolset.
            description: of the toolset, for people.
            store: the file that stores calls; by default `NAME.rap.db` in the current folder.
            url: the base URL under which runtimes reach this server; by default taken from each request. `Signed`
                requests must be signed for it, or without one for the bound address.
            auth: who may call, such as `Bearer(...)`; leave it out in a trusted network only.
            sign: the credential of callbacks, such as `Signed(...)`.
            sign_to: origins of runtimes that may see that credential, such as `https://runtime.example`. A signature
                may be seen by all; any other credential needs this, because callers choose the callback URLs.
            allow: private networks and hosts that callbacks may go to, besides public ones.
            https_only: whether callbacks must go over https.
            clients: the OAuth clients whose tokens tools may use.
            cipher: encrypts users' tokens in the file, such as `Fernet(key)` of the package `cryptography`.
            limits: on requests, calls and messages.

        Raises:
            ConfigError: one of these is invalid.
        """
        if not 1 <= len(name) <= _MAX_NAME:
            raise ConfigError(f"the name of a toolset must have 1 to {_MAX_NAME} characters, got {name!r}; correct it")
        if not (sign is None or sign_to or isinstance(sign, Signed)):
            raise ConfigError("every caller would see `sign`; name the runtimes in `sign_to`, or use `Signed`")
        try:
            check_headers({} if sign is None else sign.headers("POST", "https://runtime.example/", b""))
        except RecordError as error:
            raise ConfigError(f"`sign` cannot be presented: {error}") from None
        if url is not None:
            origin_of(url)
        self.settings = ProviderSettings(
            name=name,
            description=description,
            store=Path(store or f"{name.replace('/', '-')}.rap.db"),
            url=url and url.rstrip("/"),
            policy=SsrfPolicy.parse(allow, https_only=https_only),
            admits=auth.for_sender(SigningSide.RUNTIME) if isinstance(auth, Signed) else auth,
            presents=sign.for_sender(SigningSide.PROVIDER) if isinstance(sign, Signed) else sign,
            presents_to=frozenset(map(origin_of, sign_to)),
            limits=limits or Limits(),
            cipher=cipher,
            clients={client.name: client for client in clients},
        )
        self._endpoints = ProviderEndpoints(self.settings)
        self._app: Starlette | None = None

    @overload
    def tool(self, function: _F, /) -> _F: ...
    @overload
    def tool(self, /, **options: Unpack[RapToolOptions]) -> Callable[[_F], _F]: ...
    def tool(self, function: _F | None = None, /, **options: Unpack[RapToolOptions]) -> _F | Callable[[_F], _F]:
        """Add a function as a tool: `@provider.tool`, or `@provider.tool(read_only=True)`. It is returned unchanged.

        Raises:
            ConfigError: its signature does not suit a tool, or another tool has its name.
        """
        return self._add(function, options, is_subscription=False)

    @overload
    def subscription(self, function: _F, /) -> _F: ...
    @overload
    def subscription(self, /, **options: Unpack[RapToolOptions]) -> Callable[[_F], _F]: ...
    def subscription(self, function: _F | None = None, /, **options: Unpack[RapToolOptions]) -> _F | Callable[[_F], _F]:
        """Add an async generator: its first item confirms the subscription, and each further one is an event.

        After a restart it is called again with the same arguments, and `call.bookmark` is that of the last event.

        Raises:
            ConfigError: it yields nothing, its signature does not suit a tool, or another tool has its name.
        """
        return self._add(function, options, is_subscription=True)

    def _add(self, function: _F | None, options: RapToolOptions, *, is_subscription: bool) -> _F | Callable[[_F], _F]:
        def add(given: _F) -> _F:
            self.settings.add_tool(declare(given, options, is_subscription=is_subscription))
            return given

        return add if function is None else add(function)

    def include_runtime(self, open_runtime: Callable[[], Runtime]) -> None:
        """Add the tools of a runtime: `provider.include_runtime(lambda: Runtime.open(config="agenttool.toml"))`.

        It is opened when the provider starts. Each invocation is a governed call: the runtime's rules decide, and its
        own approvers answer what they ask.
        """
        self.settings.runtimes.append(partial(open_runtime_tools, open_runtime))

    def on_close(self, clean_up: CleanUp) -> CleanUp:
        """Register a coroutine function that is called in the background with the id of each closed thread.

        A closure may arrive twice, out of order or never. The id is untrusted text: never build a path from it.
        """
        self.settings.on_close.append(clean_up)
        return clean_up

    def on_migrate(self, move: Move) -> Move:
        """Register a coroutine function that moves a session; when it returns, the destination can serve it.

        With one registered, the manifest says that this toolset needs migration.
        """
        self.settings.on_migrate.append(move)
        return move

    async def publish(self, topic: str, value: object, *, associative: bool = False, final: bool = False) -> int:
        """Send an event to every subscription of a topic, and return how many there are.

        Verify first that the data comes from where it claims. A subscription with `Limits.max_events` undelivered
        events gets an event that ends it instead.

        Raises:
            ToolFailure: the value cannot be sent.
        """
        return await self._endpoints.service.runner.publish(
            topic, Event(value=value, associative=associative, final=final)
        )

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools as the manifest defines them."""
        return tuple(tool.definition for tool in self.settings.tools.values())

    @property
    def security(self) -> str:
        """A page in Markdown with the security properties of the toolset and each of its tools."""
        settings = self.settings
        lines = [f"# Security of the toolset {settings.name}", "", *(f"- {each}" for each in _toolset_lines(settings))]
        for name, tool in settings.tools.items():
            description = " ".join(tool.definition.description.split())
            lines += ["", f"## {name}", "", description, "", *(f"- {each}" for each in _tool_lines(tool, settings))]
        return "\n".join(lines) + "\n"

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run the provider without a server of its own, as `async with`; the app accepts requests meanwhile.

        Raises (on entering):
            ConfigError: there is no tool, or the store cannot be used.
        """
        return self._endpoints.lifespan(self.app)

    @property
    def app(self) -> Starlette:
        """The ASGI app; made on first access, with the tools added by then.

        Raises:
            ConfigError: there is no tool.
        """
        if self._app is None:
            if not self.settings.tools and not self.settings.runtimes:
                raise ConfigError(
                    f"toolset {self.settings.name!r} has no tool; decorate a function with @provider.tool"
                )
            self._app = self._endpoints.app()
        return self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await self.app(scope, receive, send)


def _toolset_lines(settings: ProviderSettings) -> Iterator[str]:
    if settings.admits is None:
        yield "**Callers:** every client that can reach the server; for trusted networks only."
    else:
        yield f"**Callers:** clients with a valid credential ({type(settings.admits).__name__})."
    yield f"**Callbacks:** posted to the callback URLs of its callers: {_destinations(settings.policy)}."
    if settings.presents is None:
        yield "**Authentication of callbacks:** only the secret callback URL."
    else:
        yield f"**Authentication of callbacks:** a credential ({type(settings.presents).__name__})."
    yield f"**Stored data:** arguments, results and subscriptions, in clear, in the file {settings.store.name}."
    if settings.clients:
        how = "in clear" if settings.cipher is None else "encrypted"
        yield f"**Tokens of users:** stored {how} in the same file, for {', '.join(sorted(settings.clients))}."
    if settings.runtimes:
        yield "**Runtime tools:** tools of a runtime are offered as well; that runtime's own rules decide each call."


def _destinations(policy: SsrfPolicy) -> str:
    private = [*map(str, policy.networks), *sorted(policy.hosts)]
    where = f"public addresses, and {', '.join(private)}" if private else "public addresses only"
    return f"{where}, over https only" if policy.https_only else where


def _tool_lines(tool: RapTool, settings: ProviderSettings) -> Iterator[str]:
    hints = tool.definition.hints
    if hints.get("readOnly") is True:
        yield "**Effects:** reads only."
    elif hints.get("destructive") is False:
        yield "**Effects:** changes data, and destroys none."
    else:
        yield "**Effects:** may change and destroy data; no annotation says otherwise."
    if tool.is_repeatable:
        yield "**After a crash:** may run again; repeating it is harmless."
    else:
        yield "**After a crash:** does not run again; its caller gets an error that says that the outcome is unknown."
    if tool.requires_auth is not None:
        page = settings.clients[tool.requires_auth].authorize_url
        yield f"**Acts as the user:** asks for an authorization at {page}, and uses the token."
    if tool.is_subscription:
        yield "**Subscription:** sends events until it is canceled; each may reach the model."
    if tool.definition.display_script is not None:
        yield "**Display script:** clients may run a script to show calls; run it in a sandbox only."

"""`Provider`: functions in, a RAP tool server out."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar, Unpack, overload

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from agenttool.adapters.rap.credentials import Credential, ShownTo, origin_of
from agenttool.adapters.rap.forgery import Reach
from agenttool.adapters.rap.headers import check_headers
from agenttool.adapters.rap.signed import Signed, Speaker
from agenttool.adapters.rap.wire import ToolDefinition
from agenttool.errors import ConfigError, RecordError
from agenttool.rap.app import Door, is_invocation, make_app
from agenttool.rap.declare import RapToolOptions, declare
from agenttool.rap.limits import Limits
from agenttool.rap.oauth import Cipher, OAuthClient
from agenttool.rap.outcome import Event
from agenttool.rap.security import security_page
from agenttool.rap.settings import CleanUp, Move, Settings
from agenttool.runtime import Runtime

_F = TypeVar("_F", bound=Callable[..., object])

_MAX_NAME = 128


class Provider:
    """A toolset and its server: decorate functions, then serve it as the ASGI app that it is.

    A call is kept before it is acknowledged, runs in the background, and ends in one result, whatever happens to this
    process meanwhile. A function that had begun when the process died is not run again, unless it is declared
    `idempotent` or `read_only`; its caller is told that nobody knows.
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
        """Begin with no tools.

        Args:
            name: of the toolset.
            description: of the toolset, for people.
            store: the file that keeps calls; `NAME.rap.db` in the current folder if left out.
            url: the base URL under which runtimes reach this server; taken from each request if left out. `Signed`
                requests must have been signed for it; without one, for the address that is listened at.
            auth: who may call, such as `Bearer(...)`; leave it out in a trusted network only.
            sign: what callbacks present to be known, such as `Signed(...)`.
            sign_to: origins of runtimes that may see it, such as `https://runtime.example`. A signature may be seen by
                all; anything else needs this, because whoever calls says where callbacks go.
            allow: private networks and hosts that callbacks may go to; others than public ones are refused.
            https_only: whether callbacks must go over https.
            clients: the OAuth clients whose tokens tools may ask for.
            cipher: by which users' tokens are kept in the file, such as `Fernet(key)` of the package `cryptography`.
            limits: on requests, calls and messages.

        Raises:
            ConfigError: one of these cannot be.
        """
        if not 1 <= len(name) <= _MAX_NAME:
            raise ConfigError(f"a toolset must be named by 1 to {_MAX_NAME} characters, got {name!r}; name it")
        if not (sign is None or sign_to or isinstance(sign, Signed)):
            raise ConfigError("`sign` would be shown to whoever calls; name the runtimes in `sign_to`, or use `Signed`")
        try:
            check_headers({} if sign is None else sign.headers("POST", "https://runtime.example/", b""))
        except RecordError as error:
            raise ConfigError(f"`sign` cannot be presented: {error}") from None
        if url is not None:
            origin_of(url)
        presents = sign.by(Speaker.PROVIDER) if isinstance(sign, Signed) else sign
        self._settings = Settings(
            name=name,
            description=description,
            store=Path(store or f"{name.replace('/', '-')}.rap.db"),
            url=None if url is None else url.rstrip("/"),
            reach=Reach.of(allow, https_only=https_only),
            admits=auth.by(Speaker.RUNTIME) if isinstance(auth, Signed) else auth,
            presents=ShownTo(presents, sign_to) if presents is not None and sign_to else presents,
            limits=limits or Limits(),
            cipher=cipher,
            clients={client.name: client for client in clients},
        )
        self._door = Door(self._settings)
        self._app: Starlette | None = None

    @overload
    def tool(self, function: _F, /) -> _F: ...
    @overload
    def tool(self, /, **options: Unpack[RapToolOptions]) -> Callable[[_F], _F]: ...
    def tool(self, function: _F | None = None, /, **options: Unpack[RapToolOptions]) -> _F | Callable[[_F], _F]:
        """Offer a function: `@provider.tool`, or `@provider.tool(read_only=True)`. The function stays what it was.

        Raises:
            ConfigError: its signature cannot be a tool's, or another tool has its name.
        """

        def offer(given: _F) -> _F:
            self._settings.offer(declare(given, options))
            return given

        return offer if function is None else offer(function)

    @overload
    def subscription(self, function: _F, /) -> _F: ...
    @overload
    def subscription(self, /, **options: Unpack[RapToolOptions]) -> Callable[[_F], _F]: ...
    def subscription(self, function: _F | None = None, /, **options: Unpack[RapToolOptions]) -> _F | Callable[[_F], _F]:
        """Offer an async generator: the first thing it yields confirms the subscription, each further one is an event.

        After a restart it is called again with the same arguments, and its `call.bookmark` says where it left off.

        Raises:
            ConfigError: it yields nothing, its signature cannot be a tool's, or another tool has its name.
        """

        def offer(given: _F) -> _F:
            self._settings.offer(declare(given, options, is_subscription=True))
            return given

        return offer if function is None else offer(function)

    def govern(self, open_runtime: Callable[[], Runtime]) -> None:
        """Offer the tools of a governed runtime: `provider.govern(lambda: Runtime.open(config="agenttool.toml"))`.

        It is opened when the provider begins to run. Each invocation is a governed call: its rules decide, and what
        they ask is asked of the runtime's own approvers.
        """
        self._settings.governed.append(open_runtime)

    def on_close(self, clean_up: CleanUp) -> CleanUp:
        """Have a coroutine function called, in the background, with the id of each thread that closes.

        A closure may come twice, out of order or never, and its id is a stranger's text: never build a path of it.
        """
        self._settings.on_close.append(clean_up)
        return clean_up

    def on_migrate(self, move: Move) -> Move:
        """Have a coroutine function called to move a session: when it returns, the destination can serve it.

        Declaring one is what tells runtimes that this toolset needs migration.
        """
        self._settings.on_migrate.append(move)
        return move

    async def publish(self, topic: str, value: object, *, associative: bool = False, final: bool = False) -> int:
        """Send an event to every subscription that was opened on a topic; tell how many there are.

        Verify first that what you publish comes from where it says. A subscription of which `Limits.max_events` wait
        already gets no more of them, and ends with an event that says so.

        Raises:
            ToolFailure: the value is nothing that could be sent.
        """
        return await self._door.live.publish(topic, Event(value=value, associative=associative, final=final))

    @property
    def name(self) -> str:
        """The name of the toolset."""
        return self._settings.name

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the manifest says of each tool."""
        return tuple(tool.definition for tool in self._settings.tools.values())

    @property
    def store(self) -> Path:
        """The file that keeps calls."""
        return self._settings.store

    @property
    def url(self) -> str | None:
        """The base URL under which runtimes reach this server, if it was told one."""
        return self._settings.url

    @property
    def is_for_all(self) -> bool:
        """Whether everybody who reaches this server may call: nobody said who may."""
        return self._settings.admits is None

    @property
    def security(self) -> str:
        """What it means for security to call this toolset and each of its tools, as a page of Markdown."""
        return security_page(self._settings)

    def keep_in(self, store: str | Path) -> None:
        """Keep calls in another file; before the provider runs, and not after."""
        self._settings.store = Path(store)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run the provider without a server of its own, as `async with`: the app takes requests meanwhile.

        Raises (on entering):
            ConfigError: there is no tool, or the store cannot be used.
        """
        return self._door.lifespan(self.app)

    @property
    def app(self) -> Starlette:
        """The ASGI app; made when it is first asked for, with the tools that there are by then.

        Raises:
            ConfigError: there is no tool.
        """
        if self._app is None:
            if not self._settings.tools and not self._settings.governed:
                raise ConfigError(
                    f"toolset {self._settings.name!r} has no tool; decorate a function with @provider.tool"
                )
            self._app = make_app(self._door)
        return self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        app = self.app
        if is_invocation(scope) and not app.user_middleware:
            await self._door.take(scope, receive, send)
        else:
            await app(scope, receive, send)

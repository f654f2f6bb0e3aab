"""Sources of tools: the one protocol that every kind implements, and what a runtime offers to a source.

A source is an object with a name and three methods. It is passed as `Runtime.open(sources=[...])`, or made from a
`[sources.NAME]` table by the factory of its kind, which a package registers as an entry point of the group
`agenttool.sources`.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from agenttool.errors import ConfigError
from agenttool.ports.deferred import ResultReceiver, Thread
from agenttool.ports.stores import DocumentStore
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool
from agenttool.records import JsonObject

SOURCE_STATUS = "source_status"
"""The kind of the document in which a source stores the `SourceStatus` of a server that is not ready, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """The state of one server, or of a source that has no servers.

    Attributes:
        source: its name, which is the namespace of its tools.
        state: `connecting` while it does not answer, `unavailable` if its tools cannot be used.
        fault: why none of its tools is offered, or why some are not; contains no address and no secret.
        since_ns: since when it has been ready, or not ready; 0 if that is not recorded.
        tries: how often the source tried to connect to it.
        next_try_at_ns: when the source tries again; None if it does not.
    """

    source: str
    state: ProviderState
    fault: str | None = None
    since_ns: int = 0
    tries: int = 1
    next_try_at_ns: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether its tools can be used."""
        return self.state is ProviderState.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHost:
    """What a runtime offers to a source.

    Attributes:
        declare: adds a tool, or replaces the one with its id, at any time. A tool that is invalid, or whose name
            another one has, is not offered: `declare` returns the reason, and `rt.sources.status()` has it, too.
        set_states: updates the states of namespaces, after their tools were declared; surfaces change at once.
        results: receives deferred results and prompts.
        documents: stores documents across processes.
        credentials: returns the values of the named credentials for an actor, or for none; those that no table
            configures are missing. Raises `CredentialMissing` if one cannot be had.
        thread: the conversation of the calls.
        public_url: the URL at which servers reach this runtime; None if it has none.
        is_served: whether this process serves `public_url`.
        is_durable: whether another process can recover the calls of this one.
        now_ns: returns the wall-clock time.
        unique: returns a new unique id of 32 hexadecimal digits; ids sort by time.
        secret: returns random bytes that cannot be guessed.
    """

    declare: Callable[[DeclaredTool], str | None]
    set_states: Callable[[Mapping[str, ProviderState]], Awaitable[None]]
    results: ResultReceiver
    documents: DocumentStore
    credentials: Callable[[tuple[str, ...], str | None], Awaitable[Mapping[str, str]]]
    thread: Thread
    public_url: str | None
    is_served: bool
    is_durable: bool
    now_ns: Callable[[], int]
    unique: Callable[[], str]
    secret: Callable[[], bytes]


@runtime_checkable
class Source(Protocol):
    """A source of tools, such as the servers of one protocol.

    A runtime connects it once, when the runtime is entered, and closes it once, when the runtime is left. In between
    the source acts on its own: it declares tools with `host.declare`, again when they change, and reports with
    `host.set_states` when a server is lost or is back. A call runs the executor of the `DeclaredTool`.
    """

    @property
    def name(self) -> str:
        """The name of the source, unique in a runtime."""
        ...

    async def connect(self, host: SourceHost) -> None:
        """Connect, and declare the tools that are available now.

        An exception other than `ConfigError` costs only the tools of this source: it is logged, and
        `rt.sources.status()` has its type. A source that may become available later returns, and tries again itself.

        Raises:
            ConfigError: the deployment is wrong; the runtime does not start.
        """
        ...

    def health(self) -> Sequence[SourceStatus]:
        """Return the current state of each server, or one state; returns at once."""
        ...

    async def close(self) -> None:
        """Stop, and release everything; calls have ended by now. Called once, also if `connect` failed."""
        ...


@runtime_checkable
class ReviewedSource(Protocol):
    """A source whose changed tools cannot be called until a user has reviewed them."""

    @property
    def waiting(self) -> Mapping[str, JsonObject]:
        """The definitions that wait for a review, by the names of their tools."""
        ...

    async def check(self) -> None:
        """Connect now if it is not connected, and wait for the outcome of the attempt."""
        ...

    def describe_change(self, tool: str) -> JsonObject:
        """Return what differs in a definition that waits: `tool`, `is_changed`, its `digest`, and `members`.

        `members` has the values before and after.
        """
        ...

    async def accept(self, shown: Mapping[str, JsonObject]) -> None:
        """Accept definitions as `waiting` had them; a tool that has changed again since then still waits."""
        ...


@runtime_checkable
class LoggingSource(Protocol):
    """A source that is one server, such as an MCP server, and stores the last lines of its log."""

    @property
    def log(self) -> tuple[str, ...]:
        """The lines, the oldest first."""
        ...

    @property
    def protocol_version(self) -> str | None:
        """The revision of the protocol; None if there is no connection."""
        ...


@runtime_checkable
class SourceSettings(Protocol):
    """The settings of one source or server: a table of the settings file, or a record of the kind, as `RapServer`."""

    @property
    def kind(self) -> str:
        """The kind, by which its factory is found."""
        ...

    @property
    def name(self) -> str:
        """The name, unique in a runtime."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A `[sources.NAME]` table of a settings file.

    Attributes:
        members: the keys of the table without `kind`.
        place: the file and line, for messages.
        file: the file, to whose folder relative paths belong; None if the table is from no file.
    """

    kind: str
    name: str
    members: JsonObject
    place: str = field(compare=False)
    file: str | None = None

    @contextmanager
    def locate_errors(self) -> Generator[None]:
        """Prefix the message of a `ConfigError` with the place of the table."""
        try:
            yield
        except ConfigError as error:
            raise ConfigError(f"{self.place}: {error}") from error


SourceFactory = Callable[[Sequence[SourceSettings]], Iterable[Source]]
"""Makes the sources of one kind from all of their settings; raises `ConfigError` if some are invalid."""

"""What a source of tools may use of the runtime that it is opened for."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agenttool.ports.deferred import ResultReceiver, Thread
from agenttool.ports.stores import DocumentStore
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A runtime, as a source sees it.

    Attributes:
        door: where late answers are brought.
        shelf: what outlives this process.
        thread: the conversation that calls are made in.
        now_ns: the time.
        unique: gives 32 hexadecimal digits that nobody was given before, and that sort by time.
        secret: gives bytes that nobody can guess.
        declare: takes one tool, at any time, or refuses it by a `ConfigError`.
        hear: takes how far the servers behind namespaces are by now, once their tools were declared.
    """

    door: ResultReceiver
    shelf: DocumentStore
    thread: Thread
    now_ns: Callable[[], int]
    unique: Callable[[], str]
    secret: Callable[[], bytes]
    declare: Callable[[DeclaredTool], None]
    hear: Callable[[Mapping[str, ProviderState]], Awaitable[None]]

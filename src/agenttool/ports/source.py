"""The services of a runtime that a source of tools may use."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agenttool.ports.deferred import ResultReceiver, Thread
from agenttool.ports.stores import DocumentStore
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The interface of a runtime to a source.

    Attributes:
        door: receives deferred results and prompts.
        shelf: stores documents across processes.
        thread: the conversation of the calls.
        now_ns: returns the wall-clock time.
        unique: returns a new unique id of 32 hexadecimal digits; ids sort by time.
        secret: returns random bytes that cannot be guessed.
        declare: adds one tool, at any time; raises `ConfigError` if it is invalid.
        hear: updates the states of the servers behind namespaces, after their tools were declared.
    """

    door: ResultReceiver
    shelf: DocumentStore
    thread: Thread
    now_ns: Callable[[], int]
    unique: Callable[[], str]
    secret: Callable[[], bytes]
    declare: Callable[[DeclaredTool], None]
    hear: Callable[[Mapping[str, ProviderState]], Awaitable[None]]

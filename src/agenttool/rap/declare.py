"""A Python function to a tool of a toolset: read once, by the same eyes as `@tool`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, cast

from agenttool.adapters.python.context import Progress
from agenttool.adapters.python.threads import LeftBehind, in_thread
from agenttool.adapters.rap.wire import ToolDefinition, read, write
from agenttool.errors import ConfigError, RecordError, ToolFailure
from agenttool.rap.call import Call
from agenttool.rap.display import check_script
from agenttool.rap.outcome import Declined
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker, compile_schema
from agenttool.schema.signature import FunctionKind, Signature, signature_of

MAX_TOLD = 5
"""How many misfits of bad arguments are told."""


class RapToolOptions(TypedDict, total=False):
    """What an author may say of a function beyond its signature.

    Attributes:
        idempotent: doing it twice is doing it once, so that it is done again after a crash in the middle.
        read_only: it changes nothing, which is idempotent as well.
        requires_auth: the name of the OAuth client whose tokens it asks for.
        display_script: Rhai that gives a text to show the call by, such as `"bed " + args.bed`; it sees `args`.
        annotations: further ones; name yours like `x-acme-tier`.
        timeout_s: how long it may take, without what it waits for its user.
    """

    name: str
    description: str
    read_only: bool
    destructive: bool
    idempotent: bool
    long_running: bool
    requires_auth: str
    display_script: str
    annotations: JsonObject
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RapTool:
    """A tool of a toolset, and the code behind it.

    Attributes:
        run: gives what the tool gives back; of a subscription, what can be iterated for its events.
        is_repeatable: whether it may run again after a crash that left open how far it was.
        has_own_turns: whether somebody else says how many run at a time.
    """

    definition: ToolDefinition
    checker: Checker
    run: Callable[[Call, JsonObject], Awaitable[object]]
    is_repeatable: bool = False
    is_subscription: bool = False
    has_own_turns: bool = False
    requires_auth: str | None = None
    timeout_s: float | None = None

    def check(self, arguments: JsonObject) -> None:
        """Hold arguments to the schema.

        Raises:
            ToolFailure: they do not fit; says where and what to do, and never what was there.
        """
        if self.checker.accepts(arguments):
            return
        told = [f"at {each.pointer or '/'!r}: expected {each.expected}" for each in self.checker.misfits(arguments)]
        raise Declined(f"the arguments do not fit: {'; '.join(told[:MAX_TOLD])}; correct them and call again")


def declare(function: Callable[..., object], options: RapToolOptions, *, is_subscription: bool = False) -> RapTool:
    """Work out the tool of a function.

    Raises:
        ConfigError: its signature cannot be a tool's, it says nothing about itself, or an option is wrong.
    """
    signature = signature_of(function, context_type=Call)
    name = options.get("name", signature.name)
    unknown = options.keys() - RapToolOptions.__annotations__.keys()
    if unknown:
        raise ConfigError(f"a RAP tool has no option {min(unknown)!r}, got it for {signature.name}(); leave it out")
    if is_subscription and signature.kind is not FunctionKind.ASYNC_GENERATOR:
        raise ConfigError(f"{signature.name}() yields no events; write it as `async def` with `yield`")
    if signature.kind is FunctionKind.GENERATOR:
        raise ConfigError(f"{signature.name}() is a plain generator; write it as `async def` with `yield`")
    definition = _definition(signature, options, name)
    run = _yielder(function, signature) if is_subscription else _RUNNERS[signature.kind](function, signature)
    return RapTool(
        definition=definition,
        checker=compile_schema(definition.input_schema),
        run=run,
        is_repeatable=options.get("idempotent", False) or options.get("read_only", False),
        is_subscription=is_subscription,
        requires_auth=options.get("requires_auth"),
        timeout_s=options.get("timeout_s"),
    )


def _definition(signature: Signature, options: RapToolOptions, name: str) -> ToolDefinition:
    description = options.get("description") or signature.description
    if not description:
        raise ConfigError(f"function {name!r} says nothing about itself; give it a docstring or a description")
    hints: JsonObject = {
        "readOnly": options.get("read_only"),
        "destructive": options.get("destructive"),
        "idempotent": options.get("idempotent"),
        "longRunning": options.get("long_running"),
        "requiresAuth": options.get("requires_auth"),
        **options.get("annotations", {}),
    }
    try:
        definition = ToolDefinition(
            name=name,
            description=description,
            input_schema=signature.model_input_schema,
            annotations={key: value for key, value in hints.items() if value is not None} or None,
            display_script=options.get("display_script"),
        )
        if isinstance(definition.display_script, str):
            check_script(definition.display_script, definition.input_schema)
        if definition.odd_hints:
            raise ConfigError(
                f"{definition.odd_hints[0]!r} of {name!r} is not of its type; correct it, or leave it out"
            )
        return read(write(definition), ToolDefinition)  # as strictly as a runtime will
    except (RecordError, ValueError) as error:
        raise ConfigError(f"{name!r} cannot be a RAP tool: {error}; names have 1 to 128 of A-Z a-z 0-9 _ -") from error


def _keywords(signature: Signature, call: Call, arguments: JsonObject) -> dict[str, object]:
    convert = signature.arguments
    keywords: dict[str, object] = {**(arguments if convert is None else convert(arguments))}
    if signature.context_parameter is not None:
        keywords[signature.context_parameter] = call
    return keywords


_Run = Callable[[Call, JsonObject], Awaitable[object]]


def _awaiter(function: Callable[..., object], signature: Signature) -> _Run:
    async def run(call: Call, arguments: JsonObject) -> object:
        return await cast("Awaitable[object]", function(**_keywords(signature, call, arguments)))

    return run


def _threader(function: Callable[..., object], signature: Signature) -> _Run:
    left_behind = LeftBehind()

    async def run(call: Call, arguments: JsonObject) -> object:
        return await in_thread(partial(function, **_keywords(signature, call, arguments)), left_behind)

    return run


def _iterator(function: Callable[..., object], signature: Signature) -> _Run:
    """Run a generator to its end: progress is told, and the last thing it yields is the result."""

    async def run(call: Call, arguments: JsonObject) -> object:
        last: object = None
        async for item in cast("AsyncIterator[object]", function(**_keywords(signature, call, arguments))):
            if isinstance(item, Progress):
                call.report(item.message, percent=item.percent)
            else:
                last = item
        return last

    return run


def _yielder(function: Callable[..., object], signature: Signature) -> _Run:
    async def run(call: Call, arguments: JsonObject) -> object:
        return function(**_keywords(signature, call, arguments))

    return run


_RUNNERS: dict[FunctionKind, Callable[[Callable[..., object], Signature], _Run]] = {
    FunctionKind.COROUTINE: _awaiter,
    FunctionKind.FUNCTION: _threader,
    FunctionKind.ASYNC_GENERATOR: _iterator,
}


def words_for_caller(error: Exception, reference: str) -> str:
    """Say how a tool failed: in its author's words where they are meant for the caller, and in ours where not."""
    if isinstance(error, ToolFailure | RecordError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the tool ran out of time; it may have done part of its work, so look before you try again"
    return f"the tool failed; try again later, or tell its operator the reference {reference}"

"""The tools of a provider, declared from Python functions."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, cast

from agenttool.adapters.python.context import Progress, joined_parts
from agenttool.adapters.python.threads import LeftBehind, in_thread
from agenttool.adapters.rap.wire import ToolDefinition, read, write
from agenttool.errors import ConfigError, RecordError, ToolFailure
from agenttool.rap.call import RapCall
from agenttool.rap.tool_api import Declined
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker, compile_schema
from agenttool.schema.signature import FunctionKind, Signature, signature_of

MAX_LISTED_ERRORS = 5
"""How many errors of invalid arguments a message lists."""

INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME = 128
_SCRIPT_TEXT = r'\s*(?:"(?:[^"\\]|\\.)*"|`(?:[^`$]|\$(?!\{)|\$\{\s*args\.\w+\s*\})*`)\s*'
_SCRIPT_TERM = rf"(?:{_SCRIPT_TEXT}|\s*args\.\w+\s*|\s*\d+\s*)"
_DISPLAY_SCRIPT = re.compile(rf"(?:{_SCRIPT_TERM}\+)?{_SCRIPT_TEXT}(?:\+{_SCRIPT_TERM})*", re.DOTALL)


class RapToolOptions(TypedDict, total=False):
    """The options of a tool beyond its signature.

    Attributes:
        idempotent: running it twice has the effect of running it once, so it runs again after a crash.
        read_only: it changes nothing, which implies idempotent.
        requires_auth: the name of the OAuth client whose tokens it uses.
        display_script: Rhai that returns the text that shows a call, such as `"bed " + args.bed`.
        annotations: further ones; use a prefix such as `x-acme-tier`.
        timeout_s: how long it may run, without the time that it waits for its user.
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
    """A tool of a toolset, and its code.

    Attributes:
        run: returns what the tool returns; for a subscription, the iterator of its events.
        is_repeatable: whether it may run again after a crash that interrupted it.
        limits_itself: whether it needs no slot of the provider's concurrency limit.
    """

    definition: ToolDefinition
    checker: Checker
    run: Callable[[RapCall, JsonObject], Awaitable[object]]
    is_repeatable: bool = False
    is_subscription: bool = False
    limits_itself: bool = False
    requires_auth: str | None = None
    timeout_s: float | None = None

    def check(self, arguments: JsonObject) -> None:
        """Validate arguments against the schema.

        Raises:
            ToolFailure: they do not fit; the message says where, and never quotes a value.
        """
        if self.checker.accepts(arguments):
            return
        errors = [f"at {each.pointer or '/'!r}: expected {each.expected}" for each in self.checker.misfits(arguments)]
        listed = "; ".join(errors[:MAX_LISTED_ERRORS])
        raise Declined(f"the arguments do not fit: {listed}; correct them and call again")


def declare(function: Callable[..., object], options: RapToolOptions, *, is_subscription: bool = False) -> RapTool:
    """Return the tool of a function.

    Raises:
        ConfigError: its signature does not suit a tool, it has no description, or an option is wrong.
    """
    signature = signature_of(function, context_type=RapCall)
    name = options.get("name", signature.name)
    unknown = options.keys() - RapToolOptions.__annotations__.keys()
    if unknown:
        raise ConfigError(f"a RAP tool has no option {min(unknown)!r}, got it for {signature.name}(); leave it out")
    if is_subscription and signature.kind is not FunctionKind.ASYNC_GENERATOR:
        raise ConfigError(f"{signature.name}() yields no events; write it as `async def` with `yield`")
    if signature.kind is FunctionKind.GENERATOR:
        raise ConfigError(f"{signature.name}() is a plain generator; write it as `async def` with `yield`")
    definition = _definition(signature, options, name)
    return RapTool(
        definition=definition,
        checker=compile_schema(definition.input_schema),
        run=_runner(function, signature, is_subscription=is_subscription),
        is_repeatable=options.get("idempotent", False) or options.get("read_only", False),
        is_subscription=is_subscription,
        requires_auth=options.get("requires_auth"),
        timeout_s=options.get("timeout_s"),
    )


def _definition(signature: Signature, options: RapToolOptions, name: str) -> ToolDefinition:
    description = options.get("description") or signature.description
    if not description:
        raise ConfigError(f"function {name!r} has no description; give it a docstring or a description")
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
            check_display_script(definition.display_script)
        if definition.invalid_hints:
            raise ConfigError(
                f"{definition.invalid_hints[0]!r} of {name!r} has the wrong type; correct it, or leave it out"
            )
        return read(write(definition), ToolDefinition)  # validated as strictly as a runtime will
    except (RecordError, ValueError) as error:
        raise ConfigError(f"{name!r} cannot be a RAP tool: {error}; names have 1 to 128 of A-Z a-z 0-9 _ -") from error


def check_display_script(script: str) -> None:
    """Reject a display script that might not return a text.

    A runtime shows nothing if a script fails or returns something else. So a script may only join terms with `+`: texts
    in double quotes, back-quoted texts with `${args.NAME}`, numbers, and `args.NAME`. One of the first two must be a
    text.

    Raises:
        ConfigError: the script has another form.
    """
    if not _DISPLAY_SCRIPT.fullmatch(script):
        advice = "join terms, such as '\"bed \" + args.bed'"
        raise ConfigError(f"display_script must return a text, got {script[:100]!r}; {advice}")


def _runner(
    function: Callable[..., object], signature: Signature, *, is_subscription: bool
) -> Callable[[RapCall, JsonObject], Awaitable[object]]:
    """Return how to run a function; of a generator, each `Progress` is reported and the other items are joined."""
    left_behind, convert = LeftBehind(), signature.arguments

    async def run(call: RapCall, arguments: JsonObject) -> object:
        keywords: dict[str, object] = {**(arguments if convert is None else convert(arguments))}
        if signature.context_parameter is not None:
            keywords[signature.context_parameter] = call
        if signature.kind is FunctionKind.FUNCTION:
            return await in_thread(partial(function, **keywords), left_behind)
        work = function(**keywords)
        if is_subscription:
            return work
        if signature.kind is FunctionKind.COROUTINE:
            return await cast("Awaitable[object]", work)
        parts: list[object] = []
        async for item in cast("AsyncIterator[object]", work):
            if isinstance(item, Progress):
                call.report(item.message, percent=item.percent)
            else:
                parts.append(item)
        return joined_parts(parts)

    return run


def message_for_caller(error: Exception, reference: str) -> str:
    """Return the message of a failed tool: the author's own if it is meant for the caller, a general one otherwise."""
    if isinstance(error, ToolFailure | RecordError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the tool ran out of time; it may have done part of its work, so check before you try again"
    return f"the tool failed; try again later, or give its operator the reference {reference}"

"""The tools of a provider: from Python functions, and from the surface of a runtime.

Tools of a runtime are governed calls: they pass through every phase, and the runtime's rules decide. Approvals stay
with the runtime's own approvers, because the RAP caller must not approve its own call. If the runtime's store is
durable, a call is named before it is started, so that it is found again after a restart.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, cast

from agenttool.adapters.python.context import Progress
from agenttool.adapters.python.threads import LeftBehind, in_thread
from agenttool.adapters.rap.wire import ToolDefinition, read, write
from agenttool.errors import ConfigError, RecordError, ToolFailure
from agenttool.ports.offer import OfferedTool
from agenttool.rap.call import Call
from agenttool.rap.tool_api import Declined, Image, Result
from agenttool.records import ContentClass, ContentItem, InvocationId, JsonObject, ToolResult, ToolSurface
from agenttool.runtime import Runtime
from agenttool.schema.compile import Checker, compile_schema
from agenttool.schema.signature import FunctionKind, Signature, signature_of

MAX_LISTED_ERRORS = 5
"""How many errors of invalid arguments a message lists."""

_INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 128
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
    run: Callable[[Call, JsonObject], Awaitable[object]]
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
) -> Callable[[Call, JsonObject], Awaitable[object]]:
    """Return how to run a function; of a generator, each `Progress` is reported and the last other item returned."""
    left_behind, convert = LeftBehind(), signature.arguments

    async def run(call: Call, arguments: JsonObject) -> object:
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
        last: object = None
        async for item in cast("AsyncIterator[object]", work):
            if isinstance(item, Progress):
                call.report(item.message, percent=item.percent)
            else:
                last = item
        return last

    return run


def message_for_caller(error: Exception, reference: str) -> str:
    """Return the message of a failed tool: the author's own if it is meant for the caller, a general one otherwise."""
    if isinstance(error, ToolFailure | RecordError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the tool ran out of time; it may have done part of its work, so check before you try again"
    return f"the tool failed; try again later, or give its operator the reference {reference}"


async def runtime_tools(rt: Runtime) -> list[RapTool]:
    """Return the tools that a runtime's surface offers, without deferred and excluded ones.

    Raises:
        ConfigError: there is none, or two tools have the same name in the characters that RAP allows.
    """
    surface = await rt.surface(scope="session")
    offered = [tool for tool in rt.offered(surface) if not tool.is_deferred]
    shared = {name for name, count in Counter(tool.name for tool in offered).items() if count > 1}
    tools = [
        _runtime_tool(rt, surface, tool, tool.qualified_name if tool.name in shared else tool.name) for tool in offered
    ]
    duplicates = [name for name, count in Counter(tool.definition.name for tool in tools).items() if count > 1]
    if duplicates or not tools:
        fault = f"two tools become {duplicates[0]!r}; rename one" if duplicates else "it offers no tool; declare one"
        raise ConfigError(f"this runtime cannot be served over RAP: {fault}")
    return tools


def _runtime_tool(rt: Runtime, surface: ToolSurface, tool: OfferedTool, name: str) -> RapTool:
    async def run(call: Call, arguments: JsonObject) -> object:
        invocation_id = InvocationId(await call.store_once(rt.new_invocation_id()))
        try:
            await rt.start(
                tool.qualified_name,
                arguments,
                surface=surface,
                native_call_id=call.idempotency_key,
                actor_ref=None if call.user_id is None else f"rap:{call.user_id}",
                invocation_id=invocation_id,
            )
            result = await rt.wait(invocation_id)
        except asyncio.CancelledError:
            if call.is_canceled:
                await rt.cancel(invocation_id)
            raise
        return await _runtime_result(rt, result)

    definition = ToolDefinition(
        name=_INVALID_NAME_CHAR.sub("_", name)[:_MAX_NAME],
        description=tool.description,
        input_schema=tool.input_schema,
    )
    return RapTool(
        definition=definition,
        checker=compile_schema(tool.input_schema),
        run=run,
        is_repeatable=rt.is_durable,
        limits_itself=True,
    )


async def _runtime_result(rt: Runtime, result: ToolResult | None) -> object:
    """Return the model-facing content of a result, with its images.

    Raises:
        ToolFailure: it is an error.
    """
    if result is None:
        raise Declined("the runtime was closed before the call ended")
    items = result.model_facing_content or result.content or ()
    if result.is_error:
        raise Declined("\n".join(item.text for item in items if item.text) or str(result.status))
    parts = [part for item in items for part in await _parts(rt, item)]
    if all(isinstance(part, str) for part in parts):
        return "\n".join(map(str, parts))
    return Result(parts=parts)


async def _parts(rt: Runtime, item: ContentItem) -> list[str | Image]:
    if item.type is ContentClass.IMAGE and item.ref is not None:
        data = await rt.journal.payload(item.ref)
        if data is not None and item.media_type is not None:
            return [Image(data, item.media_type, item.name or "An image.")]
    return [item.text] if item.text else []

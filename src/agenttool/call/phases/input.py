"""Phases 1 to 5: find the tool, parse, check and normalize its input, and run the hooks that may replace it."""

from collections.abc import Callable
from math import ceil
from typing import TypeVar

from agenttool.call.call import Call
from agenttool.call.failures import describe_misfits, failure_of_stop
from agenttool.call.judge import is_denied, refuse_stop_and_fault, replace_input, run_hooks_at
from agenttool.call.tool import Tool
from agenttool.catalog.entry import Entry
from agenttool.catalog.surface import Surface
from agenttool.catalog.unresolved import Unresolved, not_shown, unknown_surface
from agenttool.codec import (
    SHALLOW,
    UNREADABLE,
    clone,
    is_quick,
    is_too_deep,
    json_bytes,
    parse_object,
    repeated_name,
    write_own,
)
from agenttool.codec.size import MAX_DEPTH
from agenttool.errors import RecordError, ToolFailure
from agenttool.hooks.reply import changed_fields
from agenttool.journal import steps
from agenttool.ports.calls import ALL_SHOWN
from agenttool.ports.evidence import change_by_runtime
from agenttool.records import (
    ErrorClass,
    HookEvent,
    JsonObject,
    MutationSource,
    NextAction,
    Phase,
    ToolError,
    replace,
    unresolved_tool,
)
from agenttool.results.failure import guided
from agenttool.results.redaction import InputMask, compile_redactor
from agenttool.schema.compile import MAX_MISFITS

_T = TypeVar("_T")
_RESOLVE_TOOL = Phase.RESOLVE_TOOL

REDACT_ALL_VALUES = compile_redactor(["*"])
"""Redacts all values, because without a tool it is unknown which fields are sensitive."""


def find_tool(call: Call) -> Tool | None:
    """Return the tool that a call names, if its surface has it; change nothing."""
    found = None if call.surface is None else call.surface.resolve(call.request.name)
    return call.core.tools[found] if isinstance(found, Entry) else None


def resolve_tool(call: Call) -> Tool:
    """Return the tool for the requested name.

    Raises:
        ToolFailure: unknown_tool, blocked_tool, schema_not_loaded.
    """
    surface = call.surface
    if surface is None:
        raise _unresolved(call, call.unresolved or unknown_surface(None))
    found = surface.entries[call.request.name]
    if found is None or call.shown is not ALL_SHOWN:
        found = _look_up(call, surface)
    call.tool = tool = call.core.tools[found]
    call.tool_id = tool.tool_id
    if call.secrets is not None:
        call.secrets.mask = InputMask(tool.redactor, call.secrets.mask.scrubber)
        call.request = replace(call.request, redactor=call.secrets.mask)
    elif tool.redactor is not None:
        call.request = replace(call.request, redactor=tool.redactor)
    return tool


def _look_up(call: Call, surface: Surface) -> Entry:
    """Return a tool that is called by an alias, or that the caller may not have been shown.

    Raises:
        ToolFailure: unknown_tool, blocked_tool, schema_not_loaded.
    """
    found = surface.entries[call.request.name] or surface.resolve(call.request.name, call.shown.known_as)
    unseen = call.shown.unseen
    if unseen and not isinstance(found, Unresolved) and found.tool_id in unseen:
        found = not_shown(found.qualified_name, unseen[found.tool_id])
    if isinstance(found, Unresolved):
        raise _unresolved(call, found)
    return found


def _unresolved(call: Call, found: Unresolved) -> ToolFailure:
    name = call.request.name if call.scrubber is None else call.scrubber.text(call.request.name)
    call.tool_id = unresolved_tool(name)
    call.request = replace(call.request, name=name, redactor=REDACT_ALL_VALUES)
    call.note(steps.PLANNED, call.request)
    if call.stop_state is not None and call.stop_state.reason is not None:
        return ToolFailure(failure_of_stop(call))
    error = guided(found.error_class, phase=_RESOLVE_TOOL, message=found.message, code=found.code, effects=False)
    error = error if found.awaits is None else _awaiting(call, error, found.awaits)
    return ToolFailure(error, remedy=found.remedy)


def _awaiting(call: Call, error: ToolError, provider: str) -> ToolError:
    """Return an error that says why a provider is awaited, and when it is tried again."""
    status = call.core.host.source_status(provider)
    at_ns = None if status is None else status.next_try_at_ns
    seconds = None if at_ns is None else float(max(1, ceil((at_ns - call.core.now_ns()) / 1e9)))
    reason = "" if status is None or status.fault is None else f": {status.fault}"
    return replace(
        error,
        message=f"{error.message}{reason}",
        next_action=NextAction.WAIT_FOR_PROVIDER,
        retry_after=seconds,
    )


_ADMITTED = steps.ADMITTED
_PARSE_SCHEMA = Phase.PARSE_SCHEMA
_VALIDATE_VALUES = Phase.VALIDATE_VALUES
_PREPARE = Phase.PREPARE_OBSERVABLE_INPUT


def parse_schema(call: Call, tool: Tool) -> JsonObject:
    """Read the input and check it against the model's schema; return the call's own copy.

    A tool whose parameters are plain values has a reader that does both at once. If it rejects the input, the
    schema checks it again: the schema also accepts `1.0` for an integer, and only the schema explains what is wrong.

    Raises:
        ToolFailure: schema_validation_failed; its message has the place and the remedy, never the value.
    """
    call.phase = _PARSE_SCHEMA
    if call.fault is not None:
        raise _schema_failure(call, call.fault)
    if tool.read_typed is not None:
        try:
            parsed = tool.read_typed(call.request.model_input)
        except UNREADABLE:
            parsed = _read_and_check(call, tool)
    else:
        parsed = _read_and_check(call, tool)
    if tool.redactor is not None:
        call.learn_secrets(tool.redactor, parsed)
    repeated = repeated_name(call.request.model_input, parsed) if call.is_text else None
    if repeated is not None:
        named = "a member" if tool.redactor is not None else f"the member {repeated!r}"  # a name may be a secret, too
        raise _schema_failure(call, f"arguments have {named} more than once in an object; write it once")
    call.unwritten = _ADMITTED
    return parsed


def _read_and_check(call: Call, tool: Tool) -> JsonObject:
    """Read any JSON object and check it against the schema.

    Raises:
        ToolFailure: schema_validation_failed.
    """
    try:
        parsed = parse_object(call.request.model_input, what="arguments")
    except RecordError as error:
        raise _schema_failure(call, str(error)) from error
    if len(call.request.model_input) > SHALLOW and is_too_deep(parsed):
        call.request = replace(call.request, model_input=b"null")  # other JSON readers might reject a record of it
        raise _schema_failure(call, f"arguments are nested too deeply: more than {MAX_DEPTH} levels; flatten them")
    if not tool.check_model.accepts_parsed(parsed):
        raise _explained_failure(call, tool, parsed)
    if tool.internal_only and not tool.internal_only.isdisjoint(parsed):
        names = ", ".join(sorted(tool.internal_only & parsed.keys()))
        raise _schema_failure(call, f"callers may not set {names}; remove it")
    return tool.with_integers(parsed)


def _explained_failure(call: Call, tool: Tool, parsed: JsonObject) -> ToolFailure:
    """Return the failure of an invalid input; misplaced values and unknown names are redacted in it."""
    misfits = tool.check_model.misfits(parsed)
    if tool.redactor is not None:
        has_all = len(misfits) < MAX_MISFITS and is_quick(parsed)
        more = [place for each in misfits for place in each.values] if has_all else [""]  # the whole input
        names = [name for each in misfits for name in each.names]  # a secret may have been sent as a name
        call.learn_secrets(tool.redactor, parsed, names)
        call.request = replace(call.request, redactor=InputMask(tool.redactor.with_paths(more), call.scrubber))
    return _schema_failure(call, describe_misfits(misfits))


def _schema_failure(call: Call, message: str) -> ToolFailure:
    """Record that the input is invalid, and return the failure."""
    call.note(steps.CHOSEN, call.request)
    call.note(steps.MISFIT, {"phase": _PARSE_SCHEMA.value})
    return ToolFailure(guided(ErrorClass.SCHEMA_VALIDATION_FAILED, phase=_PARSE_SCHEMA, message=message))


def validate_values(call: Call, tool: Tool, parsed: JsonObject, filled: JsonObject) -> None:
    """Convert the input with its defaults, run the tool's pure checks, then its preflight.

    A validator may require that the caller sends a member. So if nested defaults were filled in for a tool with
    validators, the input is converted without its defaults. A denied call runs no preflight (G-22).

    Raises:
        ToolFailure: invalid_arguments, setup_required, credential_missing, capability_gap, sandbox_violation.
    """
    call.phase = _VALIDATE_VALUES
    if tool.convert is not None:
        may_require = tool.fill_nested is not None and tool.validated is not None
        is_as_given = not may_require or all(filled[name] is value for name, value in parsed.items())
        arguments = _checked(call, tool.convert, filled if is_as_given else parsed)
        call.arguments = (filled, arguments) if is_as_given else None
    if tool.check_values is not None:
        _checked(call, tool.check_values, clone(parsed))
    if (tool.preflight is not None or tool.credentials) and not is_denied(call, tool, filled):
        if tool.credentials:
            _refuse_missing_credentials(call, tool)
        if tool.preflight is not None:
            _checked(call, tool.preflight, clone(parsed))


def _refuse_missing_credentials(call: Call, tool: Tool) -> None:
    """Reject a call of an actor that has no credential, before an approver is asked."""
    vault = call.core.vault
    reason = None if vault is None else vault.refusal(tool.credentials, call.actor_ref)
    if reason is not None:
        call.note(steps.MISFIT, {"phase": _VALIDATE_VALUES.value})
        raise ToolFailure(guided(ErrorClass.CREDENTIAL_MISSING, phase=_VALIDATE_VALUES, message=reason))


def _checked(call: Call, check: Callable[[JsonObject], _T], given: JsonObject) -> _T:
    try:
        return check(given)
    except ToolFailure:
        call.note(steps.MISFIT, {"phase": _VALIDATE_VALUES.value})
        raise


def prepare_observable_input(
    call: Call, tool: Tool, parsed: JsonObject, filled: tuple[JsonObject, tuple[str, ...]]
) -> JsonObject:
    """Return the input with its defaults, in the tool's normal form; record a change as a mutation by the runtime."""
    call.phase = _PREPARE
    (observable, changed), source, reason = filled, "defaults", "defaults filled in"
    if tool.normalize is not None:
        observable = tool.with_integers(parse_object(json_bytes(tool.normalize(clone(observable)))))
    if tool.validated is not None:
        observable = tool.validated(observable)
    if tool.normalize is not None or tool.validated is not None:
        changed, source, reason = changed_fields(parsed, observable), "normalize", "the tool's normal form"
    if not changed:
        return observable
    if tool.redactor is not None:
        call.learn_secrets(tool.redactor, observable)
    call.change = change = change_by_runtime(call.unique, write_own(observable), source, changed, reason, call.mask)
    call.mutation_refs = () if change.mutation_id is None else (change.mutation_id,)
    return observable


async def pre_hooks(call: Call, tool: Tool, observable: JsonObject) -> JsonObject:
    """Return the input that hooks propose, and store their votes for the permission phase.

    Raises:
        ToolFailure: hook_blocked, hook_failed, input_mutation_failed, schema_validation_failed, invalid_arguments.
    """
    call.phase = Phase.PRE_HOOKS
    call.publish()
    outcome = await run_hooks_at(call, tool, HookEvent.PRE_TOOL_USE, observable)
    refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.HOOK_FAILED)
    proposed = observable
    if outcome.updated_input is not None:
        last = next(run for run in reversed(outcome.runs) if run.reply.updated_input is not None)
        updated, hook = outcome.updated_input, last.hook.name
        proposed = replace_input(call, tool, observable, updated, MutationSource.HOOK, hook)
    return proposed

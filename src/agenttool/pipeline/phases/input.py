"""Phases 2 to 5: parse the input, check its values, normalize it, and run the hooks that may replace it."""

from agenttool.codec import SHALLOW, UNREADABLE, clone, is_quick, is_too_deep, json_bytes, parse_object, write_own
from agenttool.codec.size import MAX_DEPTH
from agenttool.errors import RecordError, ToolFailure
from agenttool.hooks.reply import changed_fields
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import InputNoted
from agenttool.pipeline.failures import describe_misfits
from agenttool.pipeline.hook_runs import refuse_stop_and_fault, run_hooks_at
from agenttool.pipeline.input_replacement import Replacement, replace_input
from agenttool.pipeline.judge import is_denied
from agenttool.pipeline.tool import Tool
from agenttool.records import ErrorClass, HookEvent, InputStage, JsonObject, MutationId, MutationSource, Phase, replace
from agenttool.results.failure import guided
from agenttool.results.redaction import InputMask
from agenttool.schema.compile import MAX_MISFITS

_ADMITTED = steps.ADMITTED
_PARSE_SCHEMA = Phase.PARSE_SCHEMA
_VALIDATE_VALUES = Phase.VALIDATE_VALUES
_PREPARE = Phase.PREPARE_OBSERVABLE_INPUT
_LATER_STAGES = (InputStage.OBSERVABLE_INPUT, InputStage.PERMISSION_INPUT, InputStage.CALL_INPUT)
_MODEL_INPUT = InputStage.MODEL_INPUT
_RUNTIME = MutationSource.RUNTIME


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
        more = [place for each in misfits for place in each.values] if has_all else [""]
        names = [name for each in misfits for name in each.names]  # a secret may have been sent as a name
        call.learn_secrets(tool.redactor, parsed, names)
        call.request = replace(call.request, redactor=InputMask(tool.redactor.with_paths(more), call.scrubber))
    return _schema_failure(call, describe_misfits(misfits))


def _schema_failure(call: Call, message: str) -> ToolFailure:
    """Record that the input is invalid, and return the failure."""
    call.note(steps.CHOSEN, call.request)
    call.note(steps.MISFIT, {"phase": _PARSE_SCHEMA.value})
    return ToolFailure(guided(ErrorClass.SCHEMA_VALIDATION_FAILED, phase=_PARSE_SCHEMA, message=message))


def validate_values(call: Call, tool: Tool, parsed: JsonObject) -> None:
    """Run the tool's pure checks, then its preflight; a denied call runs no preflight (G-22).

    Raises:
        ToolFailure: invalid_arguments, setup_required, credential_missing, capability_gap, sandbox_violation.
    """
    call.phase = _VALIDATE_VALUES
    if tool.check_values is not None:
        _checked(call, tool.check_values, parsed)
    if (tool.preflight is not None or tool.credentials) and not is_denied(call, tool, parsed):
        if tool.credentials:
            _refuse_missing_credentials(call, tool)
        if tool.preflight is not None:
            _checked(call, tool.preflight, parsed)


def _refuse_missing_credentials(call: Call, tool: Tool) -> None:
    """Reject a call of an actor that has no credential, before an approver is asked."""
    vault = call.core.vault
    reason = None if vault is None else vault.refusal(tool.credentials, call.actor_ref)
    if reason is not None:
        call.note(steps.MISFIT, {"phase": _VALIDATE_VALUES.value})
        raise ToolFailure(guided(ErrorClass.CREDENTIAL_MISSING, phase=_VALIDATE_VALUES, message=reason))


def _checked(call: Call, check: object, parsed: JsonObject) -> None:
    try:
        check(clone(parsed))  # pyright: ignore[reportCallIssue] -- one of the tool's own checks
    except ToolFailure:
        call.note(steps.MISFIT, {"phase": _VALIDATE_VALUES.value})
        raise


def prepare_observable_input(call: Call, tool: Tool, parsed: JsonObject) -> JsonObject:
    """Fill in defaults and normalize the input; return it, and record a change as a mutation by the runtime."""
    call.phase = _PREPARE
    observable, changed, source, reason = parsed, (), "defaults", "defaults filled in"
    if tool.defaults or tool.fill_nested is not None:
        observable, changed = tool.with_defaults(parsed)
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
    mutation_id: MutationId = f"mut_{call.unique}-1"  # pyright: ignore[reportAssignmentType] -- spares the call of a NewType
    call.mutation_refs = (mutation_id,)
    call.change = InputNoted(
        _LATER_STAGES,
        write_own(observable),
        call.mask,
        _RUNTIME,
        source,
        _MODEL_INPUT,
        changed,
        reason,
        mutation_id,
    )
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
        by = Replacement(source=MutationSource.HOOK, source_ref=last.hook.name, from_stage=InputStage.OBSERVABLE_INPUT)
        proposed = replace_input(call, tool, observable, outcome.updated_input, by)
    return proposed

"""Phase 2: parse the model's input and check it against the schema that the model was shown."""

from agenttool.codec import SHALLOW, UNREADABLE, is_too_deep, parse_object
from agenttool.codec.depth import MAX_DEPTH
from agenttool.errors import RecordError, ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.failures import describe_misfits
from agenttool.pipeline.tool import Tool
from agenttool.records import ErrorClass, JsonObject, Phase, replace
from agenttool.results.failure import guided
from agenttool.schema.compile import MAX_MISFITS

_PHASE = Phase.PARSE_SCHEMA
_ADMITTED = steps.ADMITTED


def parse_schema(call: Call, tool: Tool) -> JsonObject:
    """Read the input and check it against the model's schema; return the call's own copy.

    A tool whose parameters are plain values has a reader that does both at once. What that reader refuses is read
    again: the schema also accepts `1.0` for an integer, and only the schema can explain what is wrong.

    Raises:
        ToolFailure: schema_validation_failed; its message has the place and the remedy, never the value.
    """
    call.phase = _PHASE
    if call.fault is not None:
        raise misfit(call, call.fault)
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
        raise misfit(call, str(error)) from error
    if len(call.request.model_input) > SHALLOW and is_too_deep(parsed):
        call.request = replace(call.request, model_input=b"null")  # other JSON readers might reject a record of it
        raise misfit(call, f"arguments are nested too deeply: more than {MAX_DEPTH} levels; flatten them")
    if not tool.check_model.accepts_parsed(parsed):
        raise _unfit(call, tool, parsed)
    if tool.internal_only and not tool.internal_only.isdisjoint(parsed):
        names = ", ".join(sorted(tool.internal_only & parsed.keys()))
        raise misfit(call, f"{names} is not for callers to set; leave it out")
    return tool.with_integers(parsed)


def _unfit(call: Call, tool: Tool, parsed: JsonObject) -> ToolFailure:
    """Return the failure of an invalid input; misplaced values are redacted, as they may be sensitive."""
    misfits = tool.check_model.misfits(parsed)
    if tool.redactor is not None:
        more = [place for each in misfits for place in each.values] if len(misfits) < MAX_MISFITS else [""]
        call.request = replace(call.request, redactor=tool.redactor.with_paths(more))
    return misfit(call, describe_misfits(misfits))


def misfit(call: Call, message: str) -> ToolFailure:
    """Record that the input is invalid, and return the failure."""
    call.note(steps.CHOSEN, call.request)
    call.note(steps.MISFIT, {"phase": _PHASE.value})
    return ToolFailure(guided(ErrorClass.SCHEMA_VALIDATION_FAILED, phase=_PHASE, message=message))

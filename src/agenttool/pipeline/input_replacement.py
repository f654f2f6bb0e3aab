"""Validate and record an input that a hook or an approver replaced (G-21)."""

from dataclasses import dataclass

from agenttool.codec import clone, json_bytes, parse_object
from agenttool.errors import ToolFailure
from agenttool.hooks.reply import changed_fields
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import InputNoted
from agenttool.pipeline.failures import describe_misfits
from agenttool.pipeline.judge import is_denied
from agenttool.pipeline.tool import Tool
from agenttool.records import ErrorClass, InputStage, JsonObject, MutationSource
from agenttool.results.failure import guided

_LATER = {
    InputStage.OBSERVABLE_INPUT: (InputStage.PERMISSION_INPUT, InputStage.CALL_INPUT),
    InputStage.PERMISSION_INPUT: (InputStage.CALL_INPUT,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The source of a replaced input, and the stage of the original."""

    source: MutationSource
    source_ref: str
    from_stage: InputStage


def check_replacement(
    call: Call, tool: Tool, before: JsonObject, after: JsonObject, source: MutationSource
) -> JsonObject:
    """Return a copy of a replaced input with defaults, if it is valid; or the original, if nothing is changed.

    Raises:
        ToolFailure: input_mutation_failed, schema_validation_failed, invalid_arguments.
    """
    after = tool.with_defaults(parse_object(json_bytes(after)))[0]  # a copy: its author may change the original
    if not changed_fields(before, after):
        return before
    policy = tool.mutation_policy
    if (policy.hooks if source is MutationSource.HOOK else policy.permission_prompts) is False:
        message = f"{tool.name!r} allows no replacement of its input by a {source.value}; call it with what it needs"
        raise ToolFailure(guided(ErrorClass.INPUT_MUTATION_FAILED, phase=call.phase, message=message))
    if not tool.check_runtime.accepts(after):
        message = f"the replaced input does not fit: {describe_misfits(tool.check_runtime.misfits(after))}"
        raise ToolFailure(guided(ErrorClass.SCHEMA_VALIDATION_FAILED, phase=call.phase, message=message))
    if tool.check_values is not None:
        tool.check_values(clone(after))
    return after


def replace_input(call: Call, tool: Tool, before: JsonObject, after: JsonObject, by: Replacement) -> JsonObject:
    """Return the replaced input after policy, schema and the tool's own checks accept it.

    Raises:
        ToolFailure: input_mutation_failed, schema_validation_failed, invalid_arguments, or a preflight failed.
    """
    after = check_replacement(call, tool, before, after, by.source)
    if after is before:
        return before
    if tool.preflight is not None and not is_denied(call, tool, after):
        tool.preflight(clone(after))
    after = tool.with_integers(after) if tool.validated is None else tool.validated(after)
    call.learn_secrets(tool.redactor, after)
    note = InputNoted(
        _LATER[by.from_stage],
        json_bytes(after),
        call.mask,
        by.source,
        by.source_ref,
        by.from_stage,
        changed_fields(before, after),
        None,
        call.next_mutation(),
    )
    call.note(steps.INPUT_CHANGED, note)
    return after

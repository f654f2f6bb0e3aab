"""Phase 4: create the normalized input that hooks, prompts and streams see; `model_input` is unchanged."""

from copy import deepcopy

from agenttool.codec import json_bytes, parse_object
from agenttool.hooks.reply import changed_fields
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import InputNoted
from agenttool.pipeline.tool import Tool
from agenttool.records import InputStage, JsonObject, MutationId, MutationSource, Phase

_PHASE = Phase.PREPARE_OBSERVABLE_INPUT
_LATER_STAGES = (InputStage.OBSERVABLE_INPUT, InputStage.PERMISSION_INPUT, InputStage.CALL_INPUT)
_MODEL_INPUT = InputStage.MODEL_INPUT
_RUNTIME = MutationSource.RUNTIME


def prepare_observable_input(call: Call, tool: Tool, parsed: JsonObject) -> JsonObject:
    """Fill in defaults and normalize the input; return it, and record a change as a mutation by the runtime."""
    call.phase = _PHASE
    observable, changed, source, reason = parsed, (), "defaults", "defaults filled in"
    missing = [each for each in tool.defaults if each.name not in parsed]
    if missing:
        observable = {
            **parsed,
            **{each.name: each.value if each.is_scalar else deepcopy(each.value) for each in missing},
        }
        changed = tuple([each.pointer for each in missing])
    if tool.normalize is not None:
        observable = tool.with_integers(parse_object(json_bytes(tool.normalize({**observable}))))
        changed, source, reason = changed_fields(parsed, observable), "normalize", "the tool's normal form"
    if not changed:
        return observable
    if tool.redactor is not None:
        call.learn_secrets(tool.redactor, observable)
    mutation_id: MutationId = f"mut_{call.unique}-1"  # pyright: ignore[reportAssignmentType] -- spares the call of a NewType
    call.mutation_refs = (mutation_id,)
    call.change = InputNoted(
        _LATER_STAGES,
        json_bytes(observable),
        tool.redactor,
        _RUNTIME,
        source,
        _MODEL_INPUT,
        changed,
        reason,
        mutation_id,
    )
    return observable

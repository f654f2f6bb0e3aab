"""Phase 4: create the normalized input that hooks, prompts and streams see; `model_input` is unchanged."""

from agenttool.codec import json_bytes, parse_object
from agenttool.hooks.reply import changed_fields
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import InputNoted
from agenttool.pipeline.tool import Tool
from agenttool.records import InputStage, JsonObject, MutationSource, Phase

_PHASE = Phase.PREPARE_OBSERVABLE_INPUT
_LATER_STAGES = (InputStage.OBSERVABLE_INPUT, InputStage.PERMISSION_INPUT, InputStage.CALL_INPUT)


def prepare_observable_input(call: Call, tool: Tool, parsed: JsonObject) -> JsonObject:
    """Fill in defaults and normalize the input; return it, and record a change as a mutation by the runtime."""
    call.phase = _PHASE
    observable = parsed
    if tool.defaults is not None:
        missing = {name: value for name, value in tool.defaults.items() if name not in parsed}
        observable = {**parsed, **missing} if missing else parsed
    if tool.normalize is not None:
        observable = tool.with_integers(parse_object(json_bytes(tool.normalize({**observable}))))
    if observable is not parsed:
        call.learn_secrets(tool.redactor, observable)
    if observable is not parsed and (changed := changed_fields(parsed, observable)):
        call.counts.mutations = 1
        call.change = InputNoted(
            _LATER_STAGES,
            json_bytes(observable),
            tool.redactor,
            MutationSource.RUNTIME,
            "normalize" if tool.normalize is not None else "defaults",
            InputStage.MODEL_INPUT,
            changed,
            "the tool's normal form" if tool.normalize is not None else "defaults filled in",
            call.mutation_refs()[-1],
        )
    return observable

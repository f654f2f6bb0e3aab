"""Output kept for later when a call failed after it ran: what it gave back must not be lost."""

from agenttool.ports.output import NativeOutput
from agenttool.records import UNSET, Json, RedactionState, replace
from agenttool.results.bulk import bulk_of
from agenttool.results.lift import Lifter
from agenttool.results.mapping import Mapped
from agenttool.results.plain import encode, to_plain_roughly
from agenttool.results.redaction import Redactor
from agenttool.results.refs import Payload, payload_of
from agenttool.results.scrub import Scrubber

NATIVE_OUTPUT = "native_output_of_call"

PARTIAL_RESULT = "partial_result_of_call"


def keeping(failure: Mapped, payloads: tuple[Payload, ...]) -> Mapped:
    """Let the result of a failure name the output that was there, the first of some payloads, and store it with it."""
    if not payloads:
        return failure
    result = replace(failure.result, native_output_ref=payloads[0].ref.id)
    return replace(failure, result=result, payloads=payloads, needs_decision=True)


def mapped_payloads(mapped: Mapped) -> tuple[Payload, ...]:
    """Give an output that was mapped as payloads, its words first; nothing of one that nobody may see."""
    state = mapped.result.redaction_state or RedactionState.NONE
    bulk = bulk_of(mapped.result)
    if state is RedactionState.FULL or not bulk.text:
        return mapped.payloads
    data = bulk.text.encode()
    words = payload_of(data, media_type=bulk.media_type, relation=NATIVE_OUTPUT, redaction_state=state)
    return words, *mapped.payloads


def native_payload(
    output: object,
    *,
    redactor: Redactor | None = None,
    scrubber: Scrubber | None = None,
    relation: str = NATIVE_OUTPUT,
) -> tuple[Payload, ...]:
    """Give native output as stored JSON, then the media it refers to; what has no form in JSON is named by its type.

    Sensitive fields and secrets are taken out here, too: a stored copy is not a way round them.

    Raises:
        ToolFailure: result_mapping_failed; nothing of it could be read.
    """
    lifter = Lifter(scrubber)

    def told(part: object) -> Json:
        plain = to_plain_roughly(part, lifter)
        if redactor is not None:
            lifter.forget(redactor.find(plain))
            plain = redactor.redact(plain)
        return lifter.value(plain)

    if isinstance(output, NativeOutput):
        # Sensitive places are counted from the root of each part; content has no such root, so then it stays out.
        parts = {"value": output.value, "structured_content": output.structured_content}
        parts |= {"content": output.content or UNSET} if redactor is None else {}
        kept: Json = {name: told(part) for name, part in parts.items() if part is not UNSET}
    else:
        kept = told(output)
    payload = payload_of(encode(kept), media_type="application/json", relation=relation)
    return payload, *lifter.payloads

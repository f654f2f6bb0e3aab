"""Native output kept for later, when its mapping failed: the call ran, and what it gave back must not be lost."""

from agenttool.ports.output import NativeOutput
from agenttool.records import UNSET, Json
from agenttool.results.lift import Lifter
from agenttool.results.plain import encode, to_plain_roughly
from agenttool.results.redaction import Redactor
from agenttool.results.refs import Payload, payload_of
from agenttool.results.scrub import Scrubber

NATIVE_OUTPUT = "native_output_of_call"


def native_payload(
    output: object, *, redactor: Redactor | None = None, scrubber: Scrubber | None = None
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
    payload = payload_of(encode(kept), media_type="application/json", relation=NATIVE_OUTPUT)
    return payload, *lifter.payloads

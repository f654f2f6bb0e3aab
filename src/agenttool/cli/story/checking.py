"""Records from anyone can be checked: their shape, and whether they make sense."""

import io

from agenttool.cli.story.teller import Teller
from agenttool.codec import sorted_json
from agenttool.conformance.validate.run import Validation
from agenttool.records import JsonObject

FOREIGN: tuple[JsonObject, ...] = (
    {
        "record_type": "tool_declaration",
        "schema_version": "0.2.0",
        "tool_id": "tool_mail.send",
        "namespace": "mail",
        "name": "send",
        "description": "Send a mail. Not for drafts.",
        "lifecycle": "available",
        "tool_kind": "function",
        "input_contract": {"model_input_schema": {"type": "object"}, "sensitive_fields": ["password"]},
    },
    {
        "record_type": "tool_invocation",
        "schema_version": "0.2.0",
        "invocation_id": "inv_1",
        "tool_id": "tool_mail.send",
        "status": "denied",
        "model_input": {"to": "ada", "password": "correct horse"},
        "status_transitions": [
            {"status": "planned", "at": "2026-05-08T00:00:00Z"},
            {"status": "running", "at": "2026-05-08T00:00:01Z"},
            {"status": "denied", "at": "2026-05-08T00:00:02Z"},
        ],
        "created_at": "2026-05-08T00:00:00Z",
    },
    {
        "record_type": "tool_result",
        "schema_version": "0.2.0",
        "result_id": "res_1",
        "invocation_id": "inv_1",
        "status": "denied",
        "is_error": False,
        "created_at": "2026-05-08T00:00:02Z",
    },
)


def tell(teller: Teller) -> None:
    """Check a small export in which every record fits its schema and the whole does not make sense."""
    teller.chapter("Records from anyone can be checked")
    teller.say("Three records of another runtime. Each fits its schema; together they tell an impossible story:")
    lines = b"\n".join(map(sorted_json, FOREIGN))
    with Validation() as validation:
        findings = [*validation.read("export.jsonl", io.BytesIO(lines)), *validation.conclude()]
    teller.table(
        "agenttool validate export.jsonl",
        ("line", "where", "rule", "what is wrong"),
        [(str(each.line), each.pointer, each.requirement or "", each.message) for each in findings],
    )
    found = {each.requirement for each in findings}
    teller.claim("a call that ran cannot have been denied", holds="AT-INV-08" in found)
    teller.claim("a secret that stands in the open is found", holds="AT-IO-06" in found)
    quoted = any("correct horse" in repr(each) for each in findings)
    teller.claim("and no finding repeats it", holds=not quoted)

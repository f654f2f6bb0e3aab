"""Generate the files of `schemas/` from the records."""

import json
from pathlib import Path

from agenttool.schema.record_schemas import schema_of

TARGET = Path(__file__).parent.parent / "schemas"

SCHEMA_FILES = {
    "tool_declaration": "agenttool-tool-declaration.schema.json",
    "tool_interface": "agenttool-tool-interface.schema.json",
    "tool_surface": "agenttool-tool-surface.schema.json",
    "tool_invocation": "agenttool-invocation.schema.json",
    "tool_permission_profile": "agenttool-permission-profile.schema.json",
    "tool_permission_decision": "agenttool-permission-decision.schema.json",
    "tool_input_mutation": "agenttool-input-mutation.schema.json",
    "tool_hook": "agenttool-hook.schema.json",
    "tool_scheduler_policy": "agenttool-scheduler-policy.schema.json",
    "deferred_tool_ref": "agenttool-deferred-tool.schema.json",
    "tool_result": "agenttool-result.schema.json",
    "tool_result_persistence": "agenttool-result-persistence.schema.json",
    "tool_progress": "agenttool-progress.schema.json",
    "tool_execution_profile": "agenttool-execution-profile.schema.json",
    "tool_event": "agenttool-event.schema.json",
    "tool_namespace": "agenttool-namespace.schema.json",
    "tool_search_result": "agenttool-search-result.schema.json",
    "tool_input_contract": "agenttool-input-contract.schema.json",
    "tool_output_contract": "agenttool-output-contract.schema.json",
    "tool_error": "agenttool-error.schema.json",
    "tool_external_mapping": "agenttool-external-mapping.schema.json",
}
"""Every object of the standard and the file of its schema; the first fifteen are published with the standard."""


def spelled(name: str) -> str:
    """Spell the schema of one object as it stands in its file."""
    return json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every file, and remove those that no object has any more."""
    TARGET.mkdir(exist_ok=True)
    for stale in set(TARGET.glob("*.json")) - {TARGET / file for file in SCHEMA_FILES.values()}:
        stale.unlink()
    for name, file in SCHEMA_FILES.items():
        (TARGET / file).write_text(spelled(name), encoding="utf-8")
    print(f"{len(SCHEMA_FILES)} schemas")


if __name__ == "__main__":
    main()

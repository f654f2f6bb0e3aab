"""What tests of the validator share: a valid record of each kind, and ways to read the findings."""

import io
import json

import pytest

from agenttool.conformance.validate.validation import Validation

TIME = "2026-05-08T00:00:00Z"

RECORDS = {
    "tool_namespace": {"namespace": "files"},
    "tool_declaration": {
        "tool_id": "tool_read",
        "namespace": "files",
        "name": "read",
        "description": "Read a file. Not for folders.",
        "lifecycle": "available",
        "tool_kind": "file_operation",
    },
    "tool_interface": {"interface_id": "iface_read", "tool_id": "tool_read"},
    "tool_execution_profile": {"execution_profile_id": "exec_read", "execution_kind": "local_process"},
    "tool_permission_profile": {"permission_profile_id": "perm_read", "risk_level": "low"},
    "tool_surface": {"surface_id": "srf_1", "scope": "turn"},
    "deferred_tool_ref": {"tool_id": "tool_far", "name": "far", "loading_state": "deferred"},
    "tool_search_result": {"query": "read a file", "matches": ["tool_read"]},
    "tool_invocation": {"invocation_id": "inv_1", "tool_id": "tool_read", "status": "running", "created_at": TIME},
    "tool_input_mutation": {
        "mutation_id": "mut_1",
        "invocation_id": "inv_1",
        "source_type": "hook",
        "created_at": TIME,
    },
    "tool_hook": {"hook_id": "hook_1", "hook_event": "pre_tool_use"},
    "tool_permission_decision": {
        "decision_id": "dec_1",
        "invocation_id": "inv_1",
        "behavior": "allow",
        "decided_at": TIME,
    },
    "tool_scheduler_policy": {"scheduler_policy_id": "sched_1"},
    "tool_progress": {
        "progress_id": "prg_1",
        "invocation_id": "inv_1",
        "sequence": 1,
        "status": "running",
        "timestamp": TIME,
    },
    "tool_result": {
        "result_id": "res_1",
        "invocation_id": "inv_1",
        "status": "succeeded",
        "is_error": False,
        "created_at": TIME,
    },
    "tool_result_persistence": {
        "decision_id": "prs_1",
        "invocation_id": "inv_1",
        "strategy": "inline",
        "created_at": TIME,
    },
    "tool_event": {"event_id": "evt_1", "event_type": "tool.declared", "source": "test", "time": TIME},
}


def record(kind, without=(), **members):
    """Give a record that is well, but for what is changed."""
    made = {"schema_version": "0.2.0", **RECORDS[kind], **members}
    return {name: value for name, value in made.items() if name not in without}


def findings_of(*files, **options):
    """Validate files, given as bytes or as lists of records, as one set."""
    with Validation(**options) as validation:
        found = [
            finding
            for name, content in zip("abcdefgh", files, strict=False)
            for finding in validation.read(name, io.BytesIO(content if isinstance(content, bytes) else lines(content)))
        ]
        return [*found, *validation.conclude()]


def lines(records):
    return b"".join(json.dumps(each).encode() + b"\n" for each in records)


def brief(findings):
    """Say of each finding how bad it is, where it is, and by which rule."""
    return [(each.severity.value, each.pointer, each.requirement) for each in findings]


@pytest.fixture(name="record")
def _record():
    return record


@pytest.fixture
def check():
    """Validate records as one file, and say briefly what was found."""
    return lambda *records: brief(findings_of(records))


@pytest.fixture
def validated():
    """Validate files as one set, and give every finding in full."""
    return findings_of


@pytest.fixture(name="lines")
def _lines():
    return lines

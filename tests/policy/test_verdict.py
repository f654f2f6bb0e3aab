import pytest

from agenttool.codec import read, to_json, write
from agenttool.policy.decide import Policy
from agenttool.policy.verdict import SuggestedUpdates, Weight, decision_record, refusal
from agenttool.records import PermissionDecision, SuggestedUpdate, ToolError
from agenttool.schema.compile import compile_schema
from agenttool.schema.record_schemas import schema_of


@pytest.fixture
def denied(tool, book, workspace, now):
    policy = Policy(
        book=book(
            {"name": "rule_deny_secrets_dir", "behavior": "deny", "tool": "*", "path": ".secrets", "because": "keys"},
            {"name": "all", "behavior": "allow", "tool": "*"},
        ),
        workspace=workspace,
    )
    return policy.decide(tool("files.write"), {"path": "/ws/.secrets/token.txt"}, now=now)


@pytest.mark.requirement("AT-PERM-21")
def test_the_record_of_a_denied_path_has_the_facts_of_the_standards_example(denied, now):
    record = decision_record(denied, decision_id="dec_1", invocation_id="inv_1", decided_at=now)
    assert to_json(record) == {
        "record_type": "tool_permission_decision",
        "schema_version": "0.2.0",
        "decision_id": "dec_1",
        "invocation_id": "inv_1",
        "behavior": "deny",
        "mode": "default",
        "source": "project_settings",
        "reason": {
            "type": "rule",
            "message": "rule 'project_settings:rule_deny_secrets_dir' (project_settings, agenttool.toml:1) "
            "denies path '/ws/.secrets/token.txt': keys",
            "rule_ref": "project_settings:rule_deny_secrets_dir",
            "rule_source": "project_settings",
            "beaten_rule_refs": ["project_settings:all"],
        },
        "rule_refs": ["project_settings:rule_deny_secrets_dir"],
        "blocked_path": "/ws/.secrets/token.txt",
        "decided_at": now,
    }
    assert read(write(record), PermissionDecision) == record
    assert compile_schema(schema_of("tool_permission_decision")).accepts(to_json(record))


def test_a_record_carries_what_was_suggested_and_what_was_judged(denied, now):
    update = SuggestedUpdate(type="set_mode", value="default")
    record = decision_record(
        denied,
        decision_id="dec_1",
        invocation_id="inv_1",
        decided_at=now,
        input_digest="sha256:0",
        suggestions=SuggestedUpdates(lambda: (update,)),
    )
    assert (record.suggested_updates, record.input_digest) == ((update,), "sha256:0")


def test_a_refusal_is_an_error_that_says_why(denied):
    assert refusal(denied) == ToolError(
        error_class="permission_denied",
        error_code="project_settings:rule_deny_secrets_dir",
        message=denied.reason.message,
    )


def test_only_a_deny_has_an_error_class(tool, workspace, now, denied):
    asked = Policy(workspace=workspace).decide(tool(), {}, now=now)
    assert asked.error_class is None
    assert denied.is_stricter_than(asked)
    assert not asked.is_stricter_than(denied)


def test_the_weights_are_in_the_order_of_their_strength():
    assert [(weight.name, str(weight.behavior)) for weight in sorted(Weight)] == [
        ("DENY", "deny"),
        ("ASK", "ask"),
        ("ALLOW", "allow"),
        ("ASK_FOR_APPROVAL", "ask"),
        ("ALLOW_EDIT", "allow"),
        ("ASK_ABOUT_HARM", "ask"),
        ("ALLOW_HINT", "allow"),
        ("ASK_ANYONE", "ask"),
    ]

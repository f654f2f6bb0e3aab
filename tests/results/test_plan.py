import pytest

from agenttool.errors import ConfigError
from agenttool.records import OutputContract, Rendering, ToolInterface
from agenttool.results.plan import PLAIN, EmptyResultPolicy, plan_mapping


def interface(**members):
    return ToolInterface(interface_id="i", tool_id="t", **members)


def test_a_tool_that_declares_nothing_has_the_plain_plan():
    assert plan_mapping(interface()) == PLAIN
    assert PLAIN.is_plain


def test_the_plan_is_read_from_the_records():
    plan = plan_mapping(
        interface(
            output_schema={"type": "object"},
            empty_result_policy="fail",
            is_read_only=True,
            rendering=Rendering(ui_summary="label", transcript_search_text="words"),
        ),
        OutputContract(
            structured_schema={"type": "object"},
            content_types=("text",),
            redaction_rules=("token", {"path": "/user/pin"}),
            fallback_summary="not shown",
        ),
    )
    assert plan.check.accepts({})
    assert not plan.check.accepts([])
    assert plan.redactor.redact({"token": 1, "user": {"pin": 2}}) == {
        "token": "[redacted]",
        "user": {"pin": "[redacted]"},
    }
    assert (plan.content_types, plan.empty_result_policy, plan.effects) == ({"text"}, EmptyResultPolicy.FAIL, False)
    assert (plan.ui_facing_summary, plan.transcript_search_text) == ("label", "words")
    assert plan.fallback_summary == "not shown"
    assert not plan.is_plain


@pytest.mark.parametrize(
    ("schema", "other"),
    [({"type": "object"}, {"type": "array"}), ({"type": "nonsense"}, None), ({"$ref": "http://x/"}, None)],
)
def test_schemas_that_contradict_or_cannot_be_used_stop_the_deployment(schema, other):
    with pytest.raises(ConfigError):
        plan_mapping(interface(output_schema=schema), OutputContract(structured_schema=other))


def test_a_redaction_rule_that_names_no_place_hides_everything():
    plan = plan_mapping(interface(), OutputContract(redaction_rules=({"kind": "unheard of"},)))
    assert plan.redactor.is_whole


def test_a_schema_alone_leaves_the_short_way_open():
    assert plan_mapping(interface(output_schema={"type": "object"})).is_plain

import pytest

from agenttool.policy.fields import MatchingField
from agenttool.policy.subject import EffectFacts, subject_of
from agenttool.records import (
    A2aMapping,
    InputContract,
    McpMapping,
    OpenApiMapping,
    PermissionProfile,
    ToolInterface,
    complete_interface,
    replace,
)


def test_a_tool_that_says_nothing_is_read_at_its_strictest(tool):
    assert tool().facts == EffectFacts(is_read_only=False, is_destructive=True, is_open_world=True)
    completed = complete_interface(ToolInterface(interface_id="i", tool_id="t"))
    assert subject_of(tool().declaration, completed).facts == EffectFacts()


def test_declared_facts_are_taken_as_declared(tool, harmless):
    assert tool(**harmless).facts == EffectFacts(is_read_only=True, is_destructive=False, is_open_world=False)


@pytest.mark.parametrize(
    ("fact", "computed"),
    [
        ("classifier:command_read_only", {"is_read_only"}),
        ("same_as:is_concurrency_safe", set()),
        ("same_as:is_read_only", set()),
        ("same_as:nothing", set()),
        ("input.command", set()),
    ],
)
def test_a_fact_that_is_computed_or_unreadable_is_strict_until_it_is_known(tool, fact, computed):
    subject = tool(interface={"is_read_only": fact, "is_destructive": False})
    assert subject.facts.is_read_only is False
    assert subject.computed == computed
    given = EffectFacts(is_read_only=True, is_destructive=False, is_open_world=True)
    assert subject.facts_of(given).is_read_only is bool(computed)


def test_a_fact_may_be_the_same_as_another(tool):
    subject = tool(interface={"is_read_only": "same_as:is_concurrency_safe", "is_concurrency_safe": True})
    assert subject.facts.is_read_only is True


def test_a_call_can_make_a_declared_fact_stricter_and_never_looser(tool, harmless):
    subject = tool(**harmless)
    assert (
        subject.facts_of(EffectFacts(is_read_only=True, is_destructive=True, is_open_world=False)).is_destructive
        is True
    )
    assert tool().facts_of(EffectFacts(is_read_only=True, is_destructive=False, is_open_world=False)) == EffectFacts()
    assert subject.facts_of(None) is subject.facts


def test_native_identities_are_names_a_rule_can_use(tool):
    subject = tool(
        external_mappings=(
            McpMapping(server_id="github", tool_name="create_issue"),
            OpenApiMapping(operation_id="issues/create", method="post", path="/issues"),
            A2aMapping(agent_skill_id="triage"),
        )
    )
    assert subject.operations == {"create_issue", "github/create_issue", "issues/create", "POST /issues", "triage"}


def test_the_shell_example_of_the_standard_is_a_tool_that_takes_commands(tool):
    subject = tool(
        "local.shell.exec",
        {"command": {"type": "string"}, "timeout_ms": {"type": "integer"}},
        interface={"classifier_input": "input.command", "permission_matcher": "shell_pattern"},
        tool_kind="shell_command",
    )
    assert subject.fields.places[MatchingField.COMMAND] == (("command",),)
    odd = tool("x.y", ("body",), interface={"classifier_input": "input.body"}, tool_kind="shell_command")
    assert odd.fields.places[MatchingField.COMMAND] == (("body",),)


def test_the_digest_of_a_tool_changes_with_what_a_person_relied_on(tool):
    subject = tool()
    same = [
        tool(),
        subject_of(replace(subject.declaration, digest="sha256:told"), subject.interface),
        subject_of(
            replace(subject.declaration, external_mappings=(McpMapping(mcp_session_id="new"),)), subject.interface
        ),
    ]
    other = [
        tool(description="now does something else"),
        tool(properties=("path", "recursive")),
        tool(interface={"is_read_only": True}),
        tool(profile={"risk_level": "low"}),
    ]
    assert {each.declaration_digest for each in same} == {subject.declaration_digest}
    assert subject.declaration_digest not in {each.declaration_digest for each in other}


def test_arguments_are_known_only_if_there_can_be_no_others(tool):
    closed = {"type": "object", "properties": {"path": {}}, "additionalProperties": False}
    assert tool().arguments is None
    assert tool(input_contract=InputContract(model_input_schema=closed)).arguments == {"path"}


def test_the_profile_is_facts_and_stays_as_it_is(tool):
    profile = PermissionProfile(permission_profile_id="p", risk_level="high", approval_required=True)
    subject = subject_of(tool().declaration, None, None, profile)
    assert subject.profile is profile

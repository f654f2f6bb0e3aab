import pytest

from agenttool.policy.decide import Policy
from agenttool.policy.mode import PermissionMode
from agenttool.policy.subject import Facts

EDITOR = {
    "interface": {"is_open_world": False},
    "profile": {
        "risk_level": "medium",
        "access_kinds": ("file_read", "file_write"),
        "write_effects": ("local_persistent",),
    },
}


@pytest.fixture
def decided(workspace, now):
    def decide(subject, arguments, mode="default", **standing):
        facts = standing.pop("facts", None)
        policy = Policy(mode=PermissionMode(mode), workspace=workspace, **standing)
        verdict = policy.decide(subject, arguments, now=now, facts=facts)
        return verdict.behavior, verdict.reason.type

    return decide


def test_by_default_everything_is_asked_about(tool, decided):
    assert decided(tool(), {"path": "a"}) == ("ask", "safety_check")
    assert decided(tool(interface={"is_destructive": False}), {"path": "a"}) == ("ask", "other")


def test_what_is_declared_harmless_in_every_respect_goes_unasked_inside_the_workspace(tool, harmless, decided):
    reader = tool("files.read", **harmless)
    assert decided(reader, {"path": "src/a"}) == ("allow", "mode")
    assert decided(reader, {"path": "/etc/passwd"}) == ("ask", "working_dir")
    assert decided(reader, {"path": "../x"}) == ("ask", "working_dir")
    assert decided(reader, {}) == ("ask", "working_dir")
    assert decided(tool("math.add", ("a", "b"), **harmless), {"a": 1}) == ("allow", "mode")


@pytest.mark.parametrize(
    "records",
    [
        {"interface": {"is_read_only": None}},
        {"interface": {"is_destructive": None}},
        {"interface": {"is_open_world": None}},
        {"interface": {"is_open_world": True}},
        {"profile": {"approval_required": None}},
        {"profile": {"approval_required": True}},
        {"profile": {"risk_level": "medium"}},
        {"profile": {"access_kinds": ("network",)}},
        {"profile": {"write_effects": ("local_draft",)}},
        {"profile": {"access_kinds": ("file_read",)}},
    ],
)
def test_one_doubt_about_a_tool_is_enough_to_ask(tool, harmless, decided, records):
    joined = {part: {**harmless[part], **records.get(part, {})} for part in harmless}
    assert decided(tool("math.add", ("a",), **joined), {"a": 1})[0] == "ask"


def test_read_only_denies_whatever_is_not_declared_to_be_read_only(tool, harmless, decided, book):
    assert decided(tool(), {"path": "a"}, "read_only") == ("deny", "mode")
    assert decided(tool(), {"path": "a"}, "read_only", book=book({"behavior": "allow", "tool": "*"})) == (
        "deny",
        "mode",
    )
    assert decided(tool(**harmless), {"path": "a"}, "read_only") == ("allow", "mode")


def test_read_only_takes_the_word_of_a_classifier_where_the_fact_is_computed(tool, decided):
    subject = tool(interface={"is_read_only": "classifier:x", "is_destructive": "classifier:x"})
    reads = Facts(is_read_only=True, is_destructive=False, is_open_world=True)
    assert decided(subject, {"path": "a"}, "read_only") == ("deny", "mode")
    assert decided(subject, {"path": "a"}, "read_only", facts=reads) == ("ask", "other")
    assert decided(tool(), {"path": "a"}, "read_only", facts=reads) == ("deny", "mode")


def test_accept_edits_lets_files_of_the_workspace_be_changed(tool, decided):
    editor = tool("files.write", **EDITOR)
    assert decided(editor, {"path": "src/a"}) == ("ask", "safety_check")
    assert decided(editor, {"path": "src/a"}, "accept_edits") == ("allow", "mode")
    assert decided(editor, {"path": "/etc/hosts"}, "accept_edits")[0] == "ask"


@pytest.mark.parametrize(
    "profile",
    [
        {"approval_required": True},
        {"access_kinds": ("file_write", "network")},
        {"access_kinds": None},
        {"write_effects": ("remote_mutation",)},
        {"write_effects": None},
        {"write_effects": ("unheard_of",)},
    ],
)
def test_accept_edits_is_about_nothing_but_edits(tool, decided, profile):
    editor = tool("files.write", interface=EDITOR["interface"], profile={**EDITOR["profile"], **profile})
    assert decided(editor, {"path": "src/a"}, "accept_edits")[0] == "ask"


def test_a_mode_that_nobody_listed_lets_nothing_run(tool, harmless, decided, book):
    assert decided(tool(**harmless), {"path": "a"}, "yolo", book=book({"behavior": "allow", "tool": "*"})) == (
        "deny",
        "mode",
    )


def test_a_tool_that_needs_a_person_present_is_denied_where_there_is_none(tool, harmless, decided):
    subject = tool(interface={**harmless["interface"], "requires_user_interaction": True}, profile=harmless["profile"])
    assert decided(subject, {"path": "a"}, interactive=False) == ("deny", "mode")
    assert decided(subject, {"path": "a"}) == ("allow", "mode")

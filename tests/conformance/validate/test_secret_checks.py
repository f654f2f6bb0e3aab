"""Sensitive fields that stand in the open are found."""

import json

import pytest

from agenttool.conformance.validate.secret_checks import FieldNames, is_redacted, name_path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("password", ("password",)),
        ("auth.token", ("auth", "token")),
        ("/auth/token", ("auth", "token")),
        ("/a~1b/c~0d", ("a/b", "c~d")),
        ("cards[].number", ("cards", "number")),
        ("cards.*.number", ("cards", "number")),
        ("cards[0].number", ("cards", "number")),
        ("$.auth.token", ("auth", "token")),
        ("", ()),
        ("/", ()),
    ],
)
def test_a_field_may_be_named_in_several_ways(name, path):
    assert name_path(name) == path


def test_a_way_leads_through_a_field_on_whichever_level():
    fields = FieldNames(["token", "card.number"])
    assert fields.are_passed_by(("token",))
    assert fields.are_passed_by(("a", "token", "value"))
    assert fields.are_passed_by(("a", "card", "number"))
    assert not fields.are_passed_by(("card", "owner", "number"))
    assert not fields.are_passed_by(())


def test_a_way_ends_at_a_field_only_with_its_last_step():
    fields = FieldNames(["token"])
    assert fields.end(("a", "token"))
    assert not fields.end(("token", "a"))


@pytest.mark.parametrize("names", [None, 7, {}, [], [7, None], [""]])
def test_a_list_of_any_shape_is_a_list(names):
    assert not FieldNames.of(names)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "***",
        "•••",
        "[redacted]",
        "REDACTED",
        "<redacted>",
        "[REDACTED: password]",
        "[REDACTED_EMAIL]",
        "xxxxxx",
        "(hidden)",
        "…",
        {"$redacted": "password"},
        {"redacted": True},
        {"$redacted": True, "reason": "policy"},
        {"$redacted": "sha256:" + "0" * 64},
    ],
)
def test_a_marker_says_that_something_was_taken_out(value):
    assert is_redacted(value)


@pytest.mark.parametrize(
    "value",
    [
        "hunter2",
        "x",
        "hiddenvalley",
        "unredacted",
        0,
        False,
        7,
        [],
        {},
        {"redacted": False},
        {"redacted": "hunter2"},
        {"$redacted": "hunter2"},
        "redacted: hunter2",
        "redacted (policy 7)",
        {"$redacted": True, "value": "hunter2"},
        {"redacted": True, "password": "hunter2"},
        {"redacted": True, "reason": "hunter2"},
        "*" * 50 + "a",
        "[" * 200,
    ],
)
def test_anything_else_is_a_value(value):
    assert not is_redacted(value)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "abcd1234" * 4,
        "sk_live_" + "abcd1234" * 3,
        "ghp_" + "A1b2" * 9,
        "github_pat_" + "A1b2" * 9,
        "xoxb-123456789012-abcdef",
        "AKIA" + "ABCD1234EFGH5678",
        "AIza" + "x" * 35,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN PRIVATE KEY-----\nMIIE",
        "Bearer abcdefghijk",
        "glpat-" + "x1" * 10,
    ],
)
def test_a_credential_given_by_value_instead_of_name_is_an_error_and_not_repeated(validated, record, secret):
    for kind, member in (("tool_permission_profile", "credential_refs"), ("tool_interface", "required_credentials")):
        (finding,) = validated([record(kind, **{member: ["vault:github", secret]})])
        assert (finding.pointer, finding.requirement) == (f"/{member}/1", "AT-PERM-06")
        assert secret not in repr(finding)


@pytest.mark.parametrize(
    "ref", ["vault:github", "github_token", "env:OPENAI_API_KEY", "secret/data/api#key", "sk-prod"]
)
def test_the_name_of_a_credential_is_well(check, record, ref):
    assert check(record("tool_permission_profile", credential_refs=[ref])) == []


ROW = "AT-IO-06"
SECRET = "correct horse"  # noqa: S105 -- it is to be found


def declared(record, *names):
    return record("tool_declaration", input_contract={"sensitive_fields": list(names)})


def call(record, **members):
    return record("tool_invocation", **members)


@pytest.mark.parametrize("stage", ["model_input", "observable_input", "permission_input", "call_input"])
def test_a_sensitive_field_stands_in_no_input_whichever_comes_first(validated, record, stage):
    records = [declared(record, "password"), call(record, **{stage: {"password": SECRET, "path": "a"}})]
    for order in (records, records[::-1]):
        (finding,) = validated(order)
        assert (finding.record_type, finding.pointer, finding.requirement) == (
            "tool_invocation",
            f"/{stage}/password",
            ROW,
        )
        assert SECRET not in repr(finding)


@pytest.mark.parametrize(
    "marker", [None, "", "***", "[redacted]", "REDACTED", {"$redacted": 1}, {"redacted": True}, [], {}]
)
def test_a_field_that_was_redacted_is_well(check, record, marker):
    assert check(declared(record, "password"), call(record, model_input={"password": marker})) == []
    assert check(call(record, model_input={"password": marker}), declared(record, "password")) == []


@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("token", "/model_input/auth/0/token"),
        ("auth.token", "/model_input/auth/0/token"),
        ("/auth/token", "/model_input/auth/0/token"),
        ("auth[].token", "/model_input/auth/0/token"),
        ("auth", "/model_input/auth/0/token"),
    ],
)
def test_a_field_may_be_named_bare_dotted_or_by_pointer_and_lie_deep(check, record, name, pointer):
    inputs = {"auth": [{"token": SECRET}], "note": "auth.token"}
    for order in ([declared(record, name), call(record, model_input=inputs)],) * 2:
        assert check(*order) == [("error", pointer, ROW)]
        assert check(*order[::-1]) == [("error", pointer, ROW)]


def test_hooks_decisions_and_events_are_searched_too(check, record):
    others = [
        record("tool_hook", invocation_id="inv_1", tool_id="tool_read", updated_input={"password": SECRET}),
        record("tool_permission_decision", updated_input={"password": SECRET}),
        record("tool_event", invocation_id="inv_1", data={"model_input": {"password": SECRET}}),
    ]
    records = [declared(record, "password"), call(record), *others]
    wanted = [
        ("error", "/data/model_input/password", ROW),
        ("error", "/updated_input/password", ROW),
        ("error", "/updated_input/password", ROW),
    ]
    assert sorted(check(*records)) == wanted
    assert sorted(check(*reversed(records))) == wanted


def test_the_fields_of_another_tool_are_its_own_business(check, record):
    other = call(record, tool_id="tool_other", model_input={"password": SECRET})
    declaration = record("tool_declaration", tool_id="tool_other", name="other")
    assert check(declared(record, "password"), declaration, other) == []


def test_the_member_that_holds_an_input_is_no_field(check, record):
    event = record("tool_event", tool_id="tool_read", data={"status": "x"})
    assert check(declared(record, "data", "model_input"), event) == []


def test_a_name_written_with_escapes_is_the_same_name(validated, record, lines):
    text = json.dumps(call(record, model_input={"password": SECRET})).replace("password", "p\\u0061ssword")
    (finding,) = validated(lines([declared(record, "password")]) + text.encode())
    assert finding.requirement == ROW


def test_a_very_wide_input_is_searched_whichever_comes_first(check, record):
    wide = call(record, model_input={f"field{n}": n for n in range(20_000)} | {"password": SECRET})
    assert check(declared(record, "password"), wide) == [("error", "/model_input/password", ROW)]
    assert check(wide, declared(record, "password")) == [("error", "/model_input/password", ROW)]


def test_many_items_of_one_name_are_one_name(check, record):
    long = call(record, model_input={"keys": [SECRET] * 30_000})
    assert check(long, declared(record, "keys")) == [("error", "/model_input/keys/0", ROW)]


def test_an_input_written_as_text_is_searched_too(check, record):
    text = call(record, model_input=json.dumps({"password": SECRET}))
    for order in ([declared(record, "password"), text], [text, declared(record, "password")]):
        assert check(*order) == [("error", "/model_input/password", ROW)]
    for other in ("{not json", "[" * 100_000, "password", json.dumps({"password": "[redacted]"})):
        assert check(declared(record, "password"), call(record, model_input=other)) == []


def test_a_result_gives_no_sensitive_field_back(check, record):
    result = record("tool_result", structured_content={"user": {"password": SECRET}})
    records = [declared(record, "password"), call(record, status="succeeded"), result]
    for order in (records, records[::-1]):
        assert check(*order) == [("error", "/structured_content/user/password", ROW)]


def test_an_example_of_a_sensitive_field_is_a_warning(check, record):
    contract = {"sensitive_fields": ["password"], "examples": [{"password": SECRET}, {"password": "[redacted]"}]}
    assert check(record("tool_declaration", input_contract=contract)) == [
        ("warning", "/input_contract/examples/0/password", ROW)
    ]

import pytest

from agenttool.conformance.validate.sense.secrets import is_redacted


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
def test_a_credential_told_instead_of_named_is_an_error_and_not_repeated(validated, record, secret):
    for kind, member in (("tool_permission_profile", "credential_refs"), ("tool_interface", "required_credentials")):
        (finding,) = validated([record(kind, **{member: ["vault:github", secret]})])
        assert (finding.pointer, finding.requirement) == (f"/{member}/1", "AT-PERM-06")
        assert secret not in repr(finding)


@pytest.mark.parametrize(
    "ref", ["vault:github", "github_token", "env:OPENAI_API_KEY", "secret/data/api#key", "sk-prod"]
)
def test_the_name_of_a_credential_is_well(check, record, ref):
    assert check(record("tool_permission_profile", credential_refs=[ref])) == []

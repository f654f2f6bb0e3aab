import pytest


@pytest.mark.parametrize(("kind", "member"), [("tool_invocation", "invocation_id"), ("tool_event", "event_id")])
def test_an_id_is_not_empty(check, record, kind, member):
    assert ("error", f"/{member}", "AT-MODEL-01") in check(record(kind, **{member: ""}))


@pytest.mark.parametrize(
    ("member", "value", "pointer"),
    [
        ("parent_invocation_id", "inv_1", "/parent_invocation_id"),
        ("retry_of", "inv_1", "/retry_of"),
        ("depends_on", ["inv_2", "inv_1"], "/depends_on/1"),
    ],
)
def test_a_call_does_not_lead_to_itself(check, record, member, value, pointer):
    other = record("tool_invocation", invocation_id="inv_2")
    assert check(other, record("tool_invocation", **{member: value})) == [("error", pointer, "AT-MODEL-01")]

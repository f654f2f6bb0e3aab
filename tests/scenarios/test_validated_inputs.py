"""Rules, approvers and records see the values that the validators of a tool make."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    HttpUrl,
    SecretStr,
    StringConstraints,
    field_serializer,
    model_validator,
)

from agenttool import Edit, sync, tool, tools_from


class Lowered(BaseModel):
    model_config = ConfigDict(str_to_lower=True, str_strip_whitespace=True)
    to: str = Field(alias="recipient")
    pin: SecretStr = SecretStr("0000")
    note: str | None = None


@dataclass
class Settled:
    to: str

    def __post_init__(self) -> None:
        self.to = self.to.lower().strip()


PAID: list[object] = []


@tool(namespace="bank")
def constrained(to: Annotated[str, StringConstraints(to_lower=True, strip_whitespace=True)]) -> str:
    """Pay."""
    PAID.append(to)
    return to


@tool(namespace="bank")
def before(to: Annotated[str, BeforeValidator(lambda given: given.lower().strip())]) -> str:
    """Pay."""
    PAID.append(to)
    return to


@tool(namespace="bank")
def configured(to: Lowered) -> str:
    """Pay."""
    PAID.append(to)
    return to.to


@tool(namespace="bank")
def settled(to: list[Settled]) -> str:
    """Pay."""
    PAID.append(to)
    return to[0].to


@tool(namespace="bank")
def numbered(to: UUID) -> str:
    """Pay."""
    PAID.append(to)
    return str(to)


ID = "0d6cf3a4-6b0f-4c4b-8a3e-6f1f2f0f9a01"
CASES = [
    (constrained, {"to": "MALLORY "}, "/to", "mallory"),
    (before, {"to": "MALLORY "}, "/to", "mallory"),
    (configured, {"to": {"recipient": "MALLORY ", "pin": "1234"}}, "/to/recipient", "mallory"),
    (settled, {"to": [{"to": "MALLORY "}]}, "/to/0/to", "mallory"),
    (numbered, {"to": ID.upper()}, "/to", ID),
]


@pytest.mark.parametrize(("pay", "given", "place", "denied"), CASES)
def test_a_rule_sees_the_validated_value(pay, given, place, denied):
    PAID.clear()
    rules = [
        {"behavior": "allow", "tool": "*"},
        {"behavior": "deny", "tool": "bank.*", "argument": {place: {"equals": denied}}},
    ]
    with sync.open(tools=[pay], rules=rules) as rt:
        result = rt.call(pay.__name__, given)
    assert (result.ok, result.error.error_class, PAID) == (False, "permission_denied", [])


@pytest.mark.parametrize(("pay", "given", "denied"), [(each[0], each[1], each[3]) for each in CASES])
def test_an_approver_and_the_journal_see_the_validated_value(pay, given, denied):
    seen = []

    def approve(question):
        seen.append(question.shown)
        return "allow"

    with sync.open(tools=[pay], approve=approve) as rt:
        result = rt.call(pay.__name__, given)
        call = rt.journal.invocation(result.invocation_id)
    assert (result.ok, result.text) == (True, denied)
    assert denied in str(seen)
    assert "MALLORY" not in str(seen)
    assert all(denied in str(each) for each in (call.observable_input, call.permission_input, call.call_input))


class Link(BaseModel):
    target: AnyUrl
    size: ByteSize | None = None


class Color(Enum):
    RED = "red"


TYPES = [
    (AnyUrl, "HTTP://EXAMPLE.com", "http://example.com/", AnyUrl("http://example.com/")),
    (HttpUrl | None, "https://Example.com:443/a/../b", "https://example.com/b", HttpUrl("https://example.com/b")),
    (list[AnyUrl], ["HTTP://EXAMPLE.com"], ["http://example.com/"], [AnyUrl("http://example.com/")]),
    (Link, {"target": "HTTP://A.b", "size": "1KiB"}, {"target": "http://a.b/", "size": 1024}, None),
    (Path, "a//b/./c/", "a/b/c", Path("a/b/c")),
    (Path, "~/x/../y", "~/x/../y", Path("~/x/../y")),
    (Color, "red", "red", Color.RED),
    (dt.datetime, "2026-01-02 03:04+00:00", "2026-01-02T03:04:00Z", dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)),
    (dt.timedelta, "PT3600S", "PT1H", dt.timedelta(hours=1)),
    (Decimal, "1e2", "1E+2", Decimal(100)),
    (Decimal, 1.5, 1.5, Decimal("1.5")),
]


@pytest.mark.parametrize(("kind", "given", "normal", "got"), TYPES)
def test_a_type_with_several_spellings_is_seen_as_the_tool_gets_it(kind, given, normal, got):
    PAID.clear()

    @tool
    def take(value: kind) -> str:
        """Take a value."""
        PAID.append(value)
        return "taken"

    deny = {"behavior": "deny", "tool": "*.take", "argument": {"/value": {"equals": normal}}}
    with sync.open(tools=[take], rules=[{"behavior": "allow", "tool": "*"}, deny]) as rt:
        assert rt.call("take", {"value": given}).error.error_class == "permission_denied"
    with sync.open(tools=[take], approve=lambda _: "allow") as rt:
        result = rt.call("take", {"value": given})
        call = rt.journal.invocation(result.invocation_id)
    assert (result.text, call.permission_input, call.call_input) == ("taken", {"value": normal}, {"value": normal})
    assert [got or PAID[0]] == PAID


@pytest.mark.parametrize("given", [5000, 5000.0, "5000", "5E3", "5000.00"])
def test_a_deny_of_a_number_finds_a_decimal_in_every_spelling(given):
    @tool
    def pay(amount: Decimal) -> str:
        """Pay."""
        return "paid"

    deny = {"behavior": "deny", "tool": "*.pay", "argument": {"/amount": {"equals": 5000}}}
    with sync.open(tools=[pay], rules=[{"behavior": "allow", "tool": "*"}, deny]) as rt:
        assert rt.call("pay", {"amount": given}).error.error_class == "permission_denied"
        assert rt.call("pay", {"amount": "5000.01"}).text == "paid"


def test_a_value_whose_model_writes_it_in_another_form_stays_as_given():
    class Meeting(BaseModel):
        when: dt.date

        @field_serializer("when")
        def spoken(self, when: dt.date) -> str:
            return f"the {when.day}th"

    @tool(read_only=True)
    def plan(meeting: Meeting) -> int:
        """Plan."""
        return meeting.when.day

    with sync.open(tools=[plan]) as rt:
        assert rt.call("plan", {"meeting": {"when": "2026-01-04"}}).value == 4


def test_a_tool_of_a_model_shows_rules_the_validated_value():
    class Pay(BaseModel):
        """Pay."""

        to: Annotated[str, StringConstraints(to_lower=True)]

        def __call__(self) -> str:
            return self.to

    rules = [
        {"behavior": "allow", "tool": "*"},
        {"behavior": "deny", "tool": "*.Pay", "argument": {"/to": {"equals": "mallory"}}},
    ]
    with sync.open(tools=tools_from(Pay), rules=rules) as rt:
        assert rt.call("Pay", {"to": "MALLORY"}).error.error_class == "permission_denied"
        assert rt.call("Pay", {"to": "ADA"}).text == "ada"


def test_a_secret_and_an_unset_member_arrive_as_sent():
    PAID.clear()
    with sync.open(tools=[configured], approve=lambda _: "allow") as rt:
        rt.call("configured", {"to": {"recipient": "ADA", "pin": "1234"}})
    assert (PAID[0].to, PAID[0].pin.get_secret_value(), PAID[0].model_fields_set) == ("ada", "1234", {"to", "pin"})


def test_the_input_that_an_approver_edits_is_validated_too():
    with sync.open(tools=[constrained], approve=lambda _: Edit({"to": "EVE "})) as rt:
        result = rt.call("constrained", {"to": "ada"})
        assert result.text == "eve"
        assert rt.journal.invocation(result.invocation_id).call_input == {"to": "eve"}


def test_a_call_fails_if_its_validator_would_change_the_approved_value_again():
    @tool
    def double(n: Annotated[int, AfterValidator(lambda n: n * 2)]) -> int:
        """Double."""
        return n

    @tool
    def find(user: Annotated[str, AfterValidator(lambda _: object())]) -> str:
        """Find a user."""
        return "found"

    with sync.open(tools=[double, find], rules=[{"behavior": "allow", "tool": "*"}]) as rt:
        for name, given in (("double", {"n": 2}), ("find", {"user": "ada"})):
            error = rt.call(name, given).error
            assert error.error_class == "invalid_arguments"
            assert "convert the value in its function" in error.message
        assert rt.call("double", {"n": 0}).value == 0


class Change(BaseModel):
    name: str = ""
    limit: int = 10


class CheckedAfter(Change):
    @model_validator(mode="after")
    def has_a_member(self) -> "CheckedAfter":
        if not self.model_fields_set:
            raise ValueError("change at least one field")
        return self


def refuse_empty(given: object) -> object:
    if given == {}:
        raise ValueError("change at least one field")
    return given


class CheckedInside(BaseModel):
    change: Annotated[Change, BeforeValidator(refuse_empty)]


def test_a_validator_can_require_a_member_that_has_a_default():
    @tool
    def by_model(change: CheckedAfter) -> list[object]:
        """Change."""
        return [change.name, change.limit]

    @tool
    def by_member(change: CheckedInside) -> list[object]:
        """Change."""
        return [change.change.name, change.change.limit]

    with sync.open(tools=[by_model, by_member], rules=[{"behavior": "allow", "tool": "*"}]) as rt:
        for name, empty, given in (
            ("by_model", {}, {"limit": 3}),
            ("by_member", {"change": {}}, {"change": {"limit": 3}}),
        ):
            error = rt.call(name, {"change": empty}).error
            assert (error.error_class, error.phase) == ("invalid_arguments", "validate_values")
            assert "change at least one field" in error.message
            assert rt.call(name, {"change": given}).value == ["", 3]

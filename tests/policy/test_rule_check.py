import logging
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Le
from typing_extensions import TypedDict

from agenttool import Runtime, tool
from agenttool.errors import ConfigError

TOML = "agenttool.toml"


class Person(TypedDict):
    name: str


@tool(namespace="bank")
def pay(to: str, amount: int) -> str:
    """Pay a person. Not for refunds."""
    return "paid"


@tool(namespace="bank")
def refund(to: str, speed: Literal["normal", "express"] = "normal", tags: list[Literal["a", "b"]] | None = None) -> str:
    """Refund a payment. Not for payments."""
    return "refunded"


@tool(namespace="bank")
def lend(rate: Annotated[float, Ge(0), Le(9)], person: Person) -> str:
    """Lend money. Not for payments."""
    return "lent"


async def open_with(folder, rule, **options):
    (folder / TOML).write_text(f'\n[[rules]]\nname = "no-pay"\nbehavior = "deny"\n{rule}\n')
    async with Runtime.open(tools=[pay, refund, lend], config=folder / TOML, **options) as rt:
        return rt


def argument(name, pointer, test):
    return f'tool = "{name}"\nargument = {{ "{pointer}" = {{ {test} }} }}'


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('tool = "bank.pai"', "no tool is called 'bank.pai'; did you mean 'bank.pay'?"),
        ('tool = "bnak.pay"', "no tool is called 'bnak.pay'; did you mean 'bank.pay'?"),
        ('tool = "mail.*"', "no tool is called 'mail.*'; correct it, or write optional = true"),
        ('namespace = "bnk"', "no tool is called namespace 'bnk'; did you mean 'bank'?"),
        ('kind = "shell_command"', "no tool is called kind 'shell_command'; "),
        (
            'tool = "bank.pay"\nargument = { "/amout" = { min = 5 } }',
            "'bank.pay' does not have the argument '/amout'; did you mean '/amount'?",
        ),
        ('argument = { "/amout" = { min = 5 } }', "'bank.pay' does not have the argument '/amout'; did you mean"),
        ('tool = "bank.pay"\npath = "/etc"', "'bank.pay' does not have a path argument; take the condition out"),
        ('tool = ["bank.pay", "bank.refnd"]', "no tool is called 'bank.refnd'; did you mean 'bank.refund'?"),
        ('tool = ["bank.pay", "mail.send"]', "no tool is called 'mail.send'; correct it, or write optional = true"),
        ('namespace = ["bank", "bnk"]', "no tool is called namespace 'bnk'; did you mean 'bank'?"),
        ('tool = ["agenttool.read_result", "bank.pai"]', "no tool is called 'bank.pai'; did you mean 'bank.pay'?"),
        ('tool = "agenttool.read_resul"', "no tool is called 'agenttool.read_resul'; "),
        (
            argument("bank.pay", "/amount", 'equals = "7"'),
            "no valid value of '/amount' of 'bank.pay' passes its test; did you mean 7?",
        ),
        (
            argument("bank.pay", "/to", "equals = 7"),
            "no valid value of '/to' of 'bank.pay' passes its test; write a value that fits its schema (string)",
        ),
        (
            argument("bank.refund", "/speed", 'equals = "expres"'),
            "no valid value of '/speed' of 'bank.refund' passes its test; did you mean \"express\"?",
        ),
        (
            argument("bank.refund", "/speed", 'one_of = ["normal", "x"]'),
            "no valid value of '/speed' of 'bank.refund' passes its test; use one of \"normal\", \"express\"",
        ),
        (
            argument("bank.refund", "/speed", 'prefix = "exx"'),
            "no valid value of '/speed' of 'bank.refund' passes its test; ",
        ),
        (
            argument("bank.refund", "/tags", 'equals = "c"'),
            "no valid value of '/tags' of 'bank.refund' passes its test; ",
        ),
        (
            argument("bank.refund", "/tags/*", 'equals = "c"'),
            "no valid value of '/tags/*' of 'bank.refund' passes its test; ",
        ),
        (argument("bank.lend", "/rate", "min = 10"), "no valid value of '/rate' of 'bank.lend' passes its test; "),
        (argument("bank.pay", "/to/x", 'equals = "a"'), "'bank.pay' never has a value at '/to/x'; did you mean '/to'?"),
        (
            argument("bank.refund", "/speed", "present = false"),
            "'/speed' of 'bank.refund' is never absent, because its default is filled in; write equals = \"normal\"",
        ),
        (
            argument("bank.pay", "/to", "present = false"),
            "'/to' of 'bank.pay' is never absent, because it is required; take the condition out",
        ),
        (
            'tool = "bank.pay"\noptional = true\nargument = { "/amout" = { min = 5 } }',
            "'bank.pay' does not have the argument '/amout'; did you mean '/amount'?",
        ),
    ],
)
async def test_a_rule_that_can_never_match_is_an_error_at_start_with_a_suggestion(tmp_path, rule, message):
    with pytest.raises(ConfigError) as caught:
        await open_with(tmp_path, rule)
    assert str(caught.value).startswith(
        f"{tmp_path / TOML}:2: rule 'project_settings:no-pay' can never match: {message}"
    )


@pytest.mark.parametrize(
    "rule",
    [
        'tool = "bank.pay"',
        'tool = "pay"',
        'tool = ["bank.pay", "mail.send"]\noptional = true',
        'tool = ["bank.pay", "agenttool.tool_search"]',
        argument("bank.pay", "/amount", "one_of = [7, 8.0]"),
        argument("bank.*", "/speed", 'equals = "express"'),
        argument("bank.refund", "/speed", 'prefix = "exp"'),
        argument("bank.refund", "/tags", 'one_of = ["a", "b"]'),
        argument("bank.refund", "/tags/*", 'equals = "a"'),
        argument("bank.refund", "/tags", 'equals = ["a", "b"]'),
        argument("bank.lend", "/rate", "min = 9"),
        argument("bank.lend", "/person/name", 'equals = "ada"'),
        argument("*", "/*", 'equals = "x"'),
        'tool = "bank.pay"\nexpires_at = 2099-01-31T12:00:00Z',
        'tool = "mail.send"\noptional = true',
        'tool = "agenttool.read_result"',
        'path = "/etc"',
        'command = "rm *"',
    ],
)
async def test_a_rule_that_can_match_or_that_is_optional_is_accepted(tmp_path, rule):
    assert await open_with(tmp_path, rule) is not None


async def test_rules_of_a_program_are_checked_when_they_change_too(tmp_path):
    (tmp_path / TOML).write_text("")
    async with Runtime.open(tools=[pay], config=tmp_path / TOML) as rt:
        typo = rule_of("bank.pai")
        with pytest.raises(ConfigError, match=r"no tool is called 'bank.pai'; did you mean 'bank.pay'\?"):
            await rt.surfaces.change(rules=[typo])
        await rt.surfaces.change(rules=[rule_of("bank.pay")])
        result = await rt.call("pay", {"to": "ada", "amount": 1}, surface=await rt.surface())
    assert result.error.error_class == "permission_denied"


class Down:
    name = "mail"

    async def connect(self, host):
        raise OSError("no route to the mail server")

    async def close(self):
        pass

    def health(self):
        return ()


async def test_a_rule_that_has_expired_is_a_warning_because_its_author_wanted_it_to_end(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "agenttool.rules"):
        await open_with(tmp_path, 'tool = "bank.pay"\nexpires_at = 2020-01-31T12:00:00Z')
    assert "it expired at 2020-01-31T12:00:00Z; delete it, or write a later time" in caplog.text


@pytest.mark.parametrize("tools", ['"mail.send"', '"send"', '["bank.pay", "mail.*"]'])
async def test_a_tool_of_a_source_that_is_not_connected_is_a_warning(tmp_path, caplog, tools):
    with caplog.at_level(logging.WARNING, "agenttool.rules"):
        await open_with(tmp_path, f"tool = {tools}", sources=[Down()])
    assert "rule 'project_settings:no-pay' matches no tool that is known now: no tool is called " in caplog.text


@pytest.mark.parametrize("tools", ['"bank.pai"', '"bnak.pay"', '["mail.send", "bank.pai"]'])
async def test_a_misspelled_name_is_an_error_although_another_source_is_not_connected(tmp_path, tools):
    with pytest.raises(ConfigError, match=r"did you mean 'bank.pay'\?"):
        await open_with(tmp_path, f"tool = {tools}", sources=[Down()])


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("min = 10, max = 5", "the test of '/amount' can never pass: min 10 is above max 5; exchange them"),
        ("present = false, max = 5", "the test of '/amount' can never pass: an absent argument has no value; "),
        ("equals = 7, max = 5", "the test of '/amount' can never pass for 7, because of its other conditions; "),
        ("equals = 7, one_of = [8]", "the test of '/amount' has both equals and one_of; write one of them"),
    ],
)
async def test_conditions_that_contradict_each_other_are_an_error(tmp_path, test, message):
    with pytest.raises(ConfigError) as caught:
        await open_with(tmp_path, argument("bank.pay", "/amount", test))
    assert message in str(caught.value)


def rule_of(name):
    from agenttool.policy.rules import Rule  # noqa: PLC0415 -- until it is public
    from agenttool.records import Behavior, RuleSource  # noqa: PLC0415 -- until it is public

    return Rule(ref="own", behavior=Behavior.DENY, source=RuleSource.FLAG_SETTINGS, tools=(name,))

import logging

import pytest

from agenttool import Runtime, tool
from agenttool.errors import ConfigError

TOML = "agenttool.toml"


@tool(namespace="bank")
def pay(to: str, amount: int) -> str:
    """Pay a person. Not for refunds."""
    return "paid"


async def open_with(folder, rule, **options):
    (folder / TOML).write_text(f'\n[[rules]]\nname = "no-pay"\nbehavior = "deny"\n{rule}\n')
    async with Runtime.open(tools=[pay], config=folder / TOML, **options) as rt:
        return rt


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
        'tool = ["bank.pay", "mail.send"]',
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
            await rt.change(rules=[typo])
        await rt.change(rules=[rule_of("bank.pay")])
        result = await rt.call("pay", {"to": "ada", "amount": 1}, surface=await rt.surface())
    assert result.error.error_class == "permission_denied"


async def test_a_tool_of_a_source_that_is_not_connected_is_a_warning(tmp_path, caplog):
    class Down:
        name = "mail"

        async def connect(self, host):
            raise OSError("no route to the mail server")

        async def close(self):
            pass

        def health(self):
            return ()

    with caplog.at_level(logging.WARNING, "agenttool.rules"):
        await open_with(tmp_path, 'tool = "mail.send"', sources=[Down()])
    assert "rule 'project_settings:no-pay' can never match: no tool is called 'mail.send'" in caplog.text


def rule_of(name):
    from agenttool.policy.rules import Rule  # noqa: PLC0415 -- until it is public
    from agenttool.records import Behavior, RuleSource  # noqa: PLC0415 -- until it is public

    return Rule(ref="own", behavior=Behavior.DENY, source=RuleSource.FLAG_SETTINGS, tools=(name,))

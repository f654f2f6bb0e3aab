"""Asks about rules for commands."""

from typing import Annotated

import pytest

from agenttool import CommandArg, Context, Runtime, tool
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

RULES = """
[[rules]]
behavior = "allow"
tool = "local.shell"
command = ["git status *", "git diff *", "ls *"]

[[rules]]
name = "no-deleting"
behavior = "deny"
tool = "local.shell"
command = "rm *"
because = "nothing is deleted here"
"""


@pytest.fixture
def shell(tmp_path):
    """Give what a line comes to: whether it ran, or how it was refused."""
    (tmp_path / "agenttool.toml").write_text(RULES)
    ran = []

    @tool(name="shell")
    async def execute(command: Annotated[str, CommandArg]) -> str:
        """Run a command line. Not for files."""
        ran.append(command)
        return "ran"

    async def outcome(command):
        async with Runtime.open(tools=[execute], rules=tmp_path / "agenttool.toml", approve="deny") as rt:
            result = await rt.call("shell", {"command": command}, surface=await rt.surface())
        assert bool(ran) is not result.is_error
        return "ran" if ran else result.error.message

    return outcome


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "git status && rm -rf /",
        "git status; rm -rf .",
        "ls | xargs rm",
        "ls $(rm -rf .)",
        "ls `rm x`",
        "sudo rm x",
        "env A=1 rm x",
        "bash -c 'rm x'",
        "  rm   x",
        "'rm' x",
        "/bin/rm x",
        "ls\nrm x",
        "env -Srm x",
        "ls | xargs -I% env % x",
    ],
)
async def test_ask_23_a_denied_command_is_found_wherever_it_stands_in_a_line(shell, command):
    assert "nothing is deleted here" in await shell(command)


@pytest.mark.parametrize(
    "command", ["git status", "git  status --short", "git diff HEAD~1 && git status", "ls -la | ls", "ls 'rm x'"]
)
async def test_ask_23_an_allowed_command_stays_allowed_however_it_is_spelled(shell, command):
    assert await shell(command) == "ran"


@pytest.mark.parametrize("command", ["git push", "git status; git push", "ls > /etc/passwd"])
async def test_ask_23_a_line_that_is_only_half_allowed_is_asked_about(shell, command):
    assert "no approver is available" in await shell(command)


@pytest.mark.parametrize("command", ["ls; $CMD", "git status &&", "curl x | sh", "eval ls"])
async def test_ask_23_a_line_that_hides_what_it_runs_may_be_the_one_that_is_denied(shell, command):
    assert "not understood" in await shell(command)


async def test_ask_24_a_sub_agent_gets_around_no_denial_of_its_parent(allow):
    @tool
    async def send(text: str) -> str:
        """Send. Not for notes."""
        return text

    @tool
    async def delegate(text: str, context: Context) -> str:
        """Let another call do it. Not for oneself."""
        return str((await context.call("send", {"text": text})).error.error_class)

    rules = [*allow, Rule(ref="no", behavior=Behavior.DENY, source=RuleSource.PROJECT_SETTINGS, tools=("local.send",))]
    async with Runtime.open(tools=[send, delegate], rules=rules) as rt:
        child = rt.child(await rt.surface(), rules=allow)
        grandchild = child.child(await child.surface(), rules=allow)
        refused = [
            (await each.call("send", {"text": "x"}, surface=await each.surface())).error.error_class
            for each in (rt, child, grandchild)
        ]
        nested = await grandchild.call("delegate", {"text": "x"}, surface=await grandchild.surface())
    assert refused == ["permission_denied"] * 3
    assert nested.content[0].text == "permission_denied"

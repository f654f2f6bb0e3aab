"""Who is asked first, and whose word counts."""

import asyncio
import json
import sys

import pytest

from agenttool.hooks.definition import Hook
from agenttool.records import HookEvent


def text(result):
    return result.model_facing_content[0].text


async def test_hooks_of_the_program_come_first_and_commands_see_what_they_changed(folder):
    class Python:
        async def run(self, question):
            return {"updated_input": {**question.input, "name": question.input["name"] + " one"}}

    folder.hook(
        "second",
        f"""exec {sys.executable} -S -c '
import json, sys
given = json.load(sys.stdin)["input"]
given["name"] += " two"
print(json.dumps({{"updated_input": given}}))'
""",
    )
    folder.hook("third", "cat > third.seen\n", more='tool = "local.gr*"\n')
    folder.hook("elsewhere", "echo never > elsewhere.seen\n", more='tool = "files.*"\n')
    hook = Hook(name="first", event=HookEvent.PRE_TOOL_USE, runner=Python())
    result, records = await folder.run(hooks=[hook])
    assert text(result) == "hello ada one two"
    assert [hook["name"] for hook in records.of("tool_hook")] == ["first", "second", "third"]
    assert json.loads((folder.place / "third.seen").read_text())["input"]["name"] == "ada one two"
    assert not (folder.place / "elsewhere.seen").exists()


@pytest.mark.requirement("AT-HOOK-14")
@pytest.mark.parametrize("python_says", ["allow", "ask", "deny"])
@pytest.mark.parametrize("command_says", ["allow", "ask", "deny", "passthrough"])
@pytest.mark.parametrize("rule", ["allow", "ask", "deny"])
async def test_the_strictest_of_rule_and_hooks_decides_so_that_no_hook_allows_what_a_rule_does_not(
    folder, python_says, command_says, rule
):
    class Python:
        async def run(self, question):
            return {"permission_result": python_says}

    folder.text = f'[[rules]]\nbehavior = "{rule}"\ntool = "local.greet"\n'
    folder.says("command", {"permission_result": command_says})
    hook = Hook(name="python", event=HookEvent.PRE_TOOL_USE, runner=Python())
    result, records = await folder.run(hooks=[hook], approve="deny")
    (decision,) = records.of("tool_permission_decision")
    assert result.is_error is bool({rule, python_says, command_says} & {"ask", "deny"})
    assert result.error is None or result.error.error_class == "permission_denied"
    assert [received["behavior"] for received in decision["reason"]["details"]["hooks"]] == [python_says, command_says]


@pytest.mark.requirement("AT-HOOK-14")
async def test_a_person_is_asked_although_a_hook_allows(folder):
    folder.text = '[[rules]]\nbehavior = "ask"\ntool = "local.greet"\n'
    folder.says("generous", {"permission_result": "allow"})
    async with folder.open() as rt:
        waiting = asyncio.ensure_future(rt.call("greet", {"name": "ada"}, surface=await rt.surface()))
        async for _, event in rt.journal.events():
            if event.event_type == "tool.permission.requested":
                break
        (question,) = await rt.approvals.list()
        await rt.approvals.decide(question.approval_id, "deny")
        result = await waiting
    assert result.error.error_class == "approval_rejected"

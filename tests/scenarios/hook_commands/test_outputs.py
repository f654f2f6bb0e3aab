"""The seven things a command may say, at the six places where it may stand."""

import dataclasses
import json

import pytest

from agenttool.records import HookEvent


def text(result):
    return result.model_facing_content[0].text


@pytest.mark.requirement("AT-HOOK-04")
async def test_a_message_is_on_record_and_in_the_stream(folder):
    folder.says("talker", {"message": "good morning"})
    result, records = await folder.run()
    (hook,) = records.of("tool_hook")
    assert hook["outputs"] == [{"type": "message", "message": "good morning"}]
    received = [event["data"].get("message") for event in records.of("tool_event") if "hook_id" in event["data"]]
    assert received == ["good morning"]
    assert records.of("tool_invocation")[0]["model_input"] == {"name": "ada"}
    assert result.status == "succeeded"


@pytest.mark.requirement("AT-HOOK-05")
async def test_progress_of_hooks_before_and_after_keeps_its_order_with_the_tools_own(folder):
    folder.says("before", {"progress": "checking"})
    folder.says("after", {"progress": "tidying"}, event="post_tool_use")
    _, records = await folder.run()
    progress = [(each["sequence"], each.get("message")) for each in records.of("tool_progress")]
    assert [message for _, message in progress if message] == ["checking", "thinking", "tidying"]
    assert [number for number, _ in progress] == sorted({number for number, _ in progress})


@pytest.mark.requirement("AT-HOOK-06", "AT-HOOK-12", "AT-HOOK-11")
async def test_a_replaced_input_is_judged_and_run_and_the_change_is_on_record(folder):
    folder.says("renamer", {"updated_input": {"name": "grace", "pin": "[redacted]"}})
    result, records = await folder.run(pin="4711-0815")
    assert text(result) == "hello grace"
    (invocation,) = records.of("tool_invocation")
    assert [invocation[stage]["name"] for stage in ("model_input", "permission_input", "call_input")] == [
        "ada",
        "grace",
        "grace",
    ]
    (mutation,) = records.of("tool_input_mutation")
    assert (mutation["source_type"], mutation["source_ref"], mutation["changed_fields"]) == (
        "hook",
        "renamer",
        ["/name"],
    )
    assert {"mutation_id", "invocation_id", "from_input_ref", "to_input_ref", "created_at"} <= mutation.keys()


@pytest.mark.requirement("AT-HOOK-07")
@pytest.mark.parametrize("place", ["pre_tool_use", "permission_request"])
@pytest.mark.parametrize(
    ("hint", "ends"),
    [("allow", None), ("passthrough", None), ("ask", "permission_denied"), ("deny", "permission_denied")],
)
async def test_a_hint_reaches_the_decision_and_can_make_it_stricter(folder, place, hint, ends):
    folder.says("judge", {"permission_result": hint, "permission_reason": "I say so"}, event=place)
    result, records = await folder.run(approve="deny")
    (hook,), (decision,) = records.of("tool_hook"), records.of("tool_permission_decision")
    assert (result.error and result.error.error_class.value) == ends
    assert hook["permission_result"] == {"behavior": hint, "reason": "I say so"}
    assert hook["hook_id"] in json.dumps(decision)


@pytest.mark.requirement("AT-HOOK-08")
async def test_additional_context_is_on_record_with_the_hook_as_its_source(folder):
    folder.says("librarian", {"additional_context": [{"note": "ada prefers tea"}]})
    _, records = await folder.run()
    (hook,) = records.of("tool_hook")
    assert (hook["name"], hook["additional_context"]) == ("librarian", [{"note": "ada prefers tea"}])
    assert records.of("tool_invocation")[0]["hook_refs"] == [hook["hook_id"]]


@pytest.mark.requirement("AT-HOOK-09")
@pytest.mark.parametrize(
    ("event", "status"),
    [("pre_tool_use", "denied"), ("permission_request", "denied"), ("permission_decision", "denied"),
     ("post_tool_use", "failed"), ("result_persistence", "failed")],
)  # fmt: skip
async def test_a_stop_ends_the_call_with_one_result(folder, event, status):
    folder.says("guard", {"stop": "not on fridays"}, event=event)
    _, records = await folder.run()
    (result,) = records.of("tool_result")
    assert (result["status"], result["error"]["error_class"]) == (status, "hook_blocked")
    assert "hook 'guard' stopped the call: not on fridays" in result["error"]["message"]
    started = [event for event in records.of("tool_event") if event["event_type"] == "tool.invocation.started"]
    assert len(started) == (status == "failed")


@pytest.mark.requirement("AT-HOOK-10", "AT-PIPE-19")
async def test_a_replaced_output_is_mapped_again_and_the_change_is_on_record(folder, greeting):
    mapped = []

    def note(output):
        mapped.append(output)
        return output

    counted = dataclasses.replace(greeting, map_result=note)
    await folder.run(tools=[counted])
    assert mapped == ["hello ada"]
    folder.says("shouter", {"updated_output": "HELLO"}, event="post_tool_use")
    result, records = await folder.run(tools=[counted])
    (mutation,) = [each for each in records.of("tool_input_mutation") if "from_output_ref" in each]
    assert mapped == ["hello ada", "hello ada", "HELLO"]
    assert text(result) == "HELLO"
    assert (mutation["source_type"], mutation["source_ref"]) == ("hook", "shouter")
    assert (mutation["from_output_ref"], mutation["to_output_ref"]) == (
        f"{result.invocation_id}#native_output",
        f"{result.invocation_id}#updated_output",
    )


MILESTONES = {
    "tool.permission.decided": "decided",
    "tool.invocation.started": "started",
    "tool.result.persisted": "persisted",
    "tool.invocation.succeeded": "succeeded",
    "tool.invocation.failed": "failed",
}
BEFORE = ("pre_tool_use", "permission_request", "decided", "permission_decision", "started")


@pytest.mark.requirement("AT-HOOK-02", "AT-HOOK-03", "AT-HOOK-16", "AT-PIPE-21")
@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("dump", ("post_tool_use", "result_persistence", "persisted", "succeeded")),
        ("fail", ("post_tool_use_failure", "result_persistence", "failed")),
    ],
)
async def test_a_command_may_stand_at_all_six_places_and_gets_each_in_its_turn(folder, name, after):
    folder.hook("witness", 'cat >> seen; echo >> seen; echo \'{"message": "saw it"}\'', event=[*HookEvent])
    result, records = await folder.run(name)
    happened = [
        event["data"]["hook_event"] if "hook_id" in event["data"] else MILESTONES.get(event["event_type"])
        for event in records.of("tool_event")
    ]
    assert tuple(each for each in happened if each) == (*BEFORE, *after)
    seen = [json.loads(line) for line in (folder.place / "seen").read_text().splitlines()]
    assert [each["hook_event"] for each in seen] == [each for each in (*BEFORE, *after) if each in [*HookEvent]]
    assert {(each["tool_name"], each["invocation_id"]) for each in seen} == {(f"local.{name}", result.invocation_id)}
    hooks = {hook["hook_id"]: (hook["hook_event"], hook["outputs"]) for hook in records.of("tool_hook")}
    said = [{"type": "message", "message": "saw it"}]
    assert [hooks[ref] for ref in records.of("tool_invocation")[0]["hook_refs"]] == [
        (each["hook_event"], said) for each in seen
    ]

"""Commands that go wrong, are late, or see what they should not."""

import asyncio
import json
from pathlib import Path

import pytest


async def test_a_command_sees_no_secret_unless_it_is_trusted_and_none_is_on_record(folder, monkeypatch):
    monkeypatch.setenv("AGENTTOOL_TEST_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("AGENTTOOL_TEST_OTHER", "not-for-hooks")
    folder.hook("stranger", "cat > stranger.seen; env > stranger.env\n")
    more = 'trusted = true\npass_env = ["AGENTTOOL_TEST_TOKEN"]\nenv = { MODE = "strict" }\n'
    folder.hook("friend", "cat > friend.seen; env > friend.env; cat friend.seen friend.env >&2; exit 1\n", more=more)
    result, records = await folder.run(pin="4711-0815")
    seen = {name: json.loads((folder.place / f"{name}.seen").read_text())["input"] for name in ("stranger", "friend")}
    assert seen == {"stranger": {"name": "ada", "pin": "[redacted]"}, "friend": {"name": "ada", "pin": "4711-0815"}}
    assert "hunter2" not in (folder.place / "stranger.env").read_text()
    environment = (folder.place / "friend.env").read_text()
    assert "AGENTTOOL_TEST_TOKEN=hunter2-hunter2" in environment
    assert "MODE=strict" in environment
    assert "not-for-hooks" not in environment
    assert "exit code 1" in result.error.message
    assert "AGENTTOOL_TEST_TOKEN=[redacted]" in result.error.message
    assert not {word for word in ("4711-0815", "hunter2") if word in repr(records) + repr(result)}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo yes", "stdout must hold one JSON object or nothing"),
        ("echo '[1]'", "stdout must hold one JSON object or nothing"),
        ('printf \'{"stop": "\\377"}\'', "must be UTF-8"),
        ('echo \'{"permision_result": "deny"}\'', "(at '/permision_result')"),
        ("echo '{\"additional_context\": [{}, 1]}'", "(at '/additional_context')"),
        ("echo '{\"permission_result\": true}'", "(at '/permission_result')"),
        ('echo \'{"permission_result": "allow"}\'; echo no good >&2; exit 2', "exit code 2: no good"),
        ("kill -KILL $$", "killed by signal 9"),
        ("exec yes", "more than 1048576 bytes to stdout"),
    ],
)
@pytest.mark.parametrize(("event", "error"), [("pre_tool_use", "hook_failed"), ("post_tool_use", "post_hook_failed")])
async def test_a_command_that_goes_wrong_fails_its_call_in_words_that_help(folder, event, error, script, message):
    folder.hook("odd", script, event=event)
    result, _ = await folder.run()
    assert (result.status, result.error.error_class) == ("failed", error)
    assert result.error.message.startswith("hook 'odd' failed: ")
    assert message in result.error.message


async def until(claim):
    for _ in range(3000):
        if claim():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


def is_alive(pid):
    """Return whether a process still does anything; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(pids):
    await until(lambda: not any(is_alive(pid) for pid in pids))


STUBBORN = (
    "trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$ > inner; sleep 600 & wait\" & echo $$ > outer; wait; wait; wait\n"
)


async def begin(rt):
    return asyncio.ensure_future(rt.call("greet", {"name": "ada"}, surface=await rt.surface()))


async def pids(folder):
    files = [folder.place / name for name in ("outer", "inner")]
    await until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
    return [int(file.read_text()) for file in files]


async def test_a_command_that_is_late_is_gone_with_its_children_and_fails_the_call(folder):
    folder.hook("slow", STUBBORN, more="timeout_s = 3\n")
    async with folder.open() as rt:
        running = await begin(rt)
        found = await pids(folder)
        result = await running
    assert result.error.error_class == "hook_failed"
    assert "hook 'slow' failed: TimeoutError: no answer within 3 s" in result.error.message
    await gone(found)


async def test_a_command_whose_call_is_canceled_is_gone_with_its_children(folder):
    folder.hook("slow", STUBBORN, more="timeout_s = 600\n")
    async with folder.open() as rt:
        running = await begin(rt)
        found = await pids(folder)
        (invocation_id,) = rt._core.registry.calls
        assert await rt.cancel(invocation_id)
        result = await running
    assert (result.status, result.abort_reason) == ("canceled", "user_interruption")
    await gone(found)


async def test_closing_the_runtime_takes_a_running_command_with_it(folder):
    folder.hook("slow", STUBBORN, more="timeout_s = 600\n")
    async with folder.open() as rt:
        running = await begin(rt)
        found = await pids(folder)
    assert (await running).abort_reason == "runtime_shutdown"
    await gone(found)

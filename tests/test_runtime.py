import asyncio
from pathlib import Path
from typing import Annotated

import pytest

from agenttool import ConfigError, Inject, Runtime, sync, tool
from agenttool.hooks.definition import Hook
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, HookEvent, RuleSource

ALLOW_ALL = [{"behavior": "allow", "tool": "*"}]
GUARD = '[[hooks]]\nname = "guard"\nevent = "pre_tool_use"\ncommand = "true"\n'


@tool(namespace="files")
async def write(path: str) -> str:
    """Write. Not for reading."""
    return "written"


class Silent:
    async def run(self, question):
        return None


@pytest.fixture
def refused(tmp_path):
    """Open a runtime with settings that are wrong, and give the words and the file."""

    def refuse(text, **options):
        file = tmp_path / "agenttool.toml"
        file.write_text(text)

        async def start():
            Runtime.open(**{"config": file, **options})

        with pytest.raises(ConfigError) as error:
            asyncio.run(start())
        return str(error.value).replace(str(file), "FILE")

    return refuse


def test_a_program_that_is_not_there_is_refused_when_settings_are_read_and_not_when_it_is_needed(refused, tmp_path):
    expected = refused(
        f'# guards\n\n{GUARD}\n[[hooks]]\nname = "x"\nevent = "pre_tool_use"\ncommand = "no-such-program -v"\n'
    )
    assert (
        expected == "FILE:8: no program 'no-such-program' can be executed; install it, or correct its path or its mode"
    )
    expected = refused(GUARD.replace("true", "./guard.sh"))
    assert expected.startswith(f"FILE:1: no program '{tmp_path}/./guard.sh' can be executed; ")


def test_everything_that_is_wrong_with_hooks_is_reported_at_once_each_with_its_place(refused):
    expected = refused(
        GUARD + GUARD + '[[hooks]]\nname = "late"\nevents = []\n[[hooks]]\nname = "odd"\nevent = "pre_tool_use"\n'
        'command = "true"\npass_env = ["AGENTTOOL_TEST_UNSET"]\n'
    )
    assert expected.splitlines() == [
        "FILE:5: another hook is called 'guard'; rename one of them",
        "FILE:9: a hook has no 'events'; did you mean 'event'?",
        "FILE:12: pass_env names 'AGENTTOOL_TEST_UNSET', which is not set; set it, or take it out",
    ]


def test_a_hook_of_settings_cannot_take_the_name_of_a_hook_of_the_program(refused):
    hooks = [Hook(name="guard", event=HookEvent.POST_TOOL_USE, runner=Silent())]
    assert "another hook is called 'guard'" in refused(GUARD, hooks=hooks)


def test_settings_are_named_once(refused):
    assert "two settings files are named" in refused("", rules="other.toml")


def test_a_command_lies_beside_the_settings_wherever_the_program_is_started(tmp_path, monkeypatch):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    (home / "guard.sh").write_text("#!/bin/sh\npwd > seen\n")
    (home / "guard.sh").chmod(0o755)
    (home / "agenttool.toml").write_text(GUARD.replace("true", "./guard.sh"))
    monkeypatch.chdir(elsewhere)
    allow = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
    with sync.open(config="../home/agenttool.toml", tools=[write], rules=[allow]) as rt:
        assert not rt.call("write", {"path": "x"}, surface=rt.surface()).is_error
    assert (home / "seen").read_text().strip() == str(home)


def test_rules_of_the_program_and_of_settings_hold_together(tmp_path):
    (tmp_path / "agenttool.toml").write_text('[[rules]]\nbehavior = "allow"\ntool = "files.*"\n')
    deny = Rule(ref="no", behavior=Behavior.DENY, source=RuleSource.CLI_ARG, tools=("files.write",))
    ends = {}
    for name, rules in (("settings", []), ("both", [deny])):
        with sync.open(config=tmp_path / "agenttool.toml", tools=[write], rules=rules) as rt:
            ends[name] = rt.call("write", {"path": "x"}, surface=rt.surface()).status.value
    assert ends == {"settings": "succeeded", "both": "denied"}


async def test_a_relative_path_that_may_begin_in_two_places_is_allowed_only_if_both_are(tmp_path, monkeypatch):
    """A tool of this process begins a relative path in the folder of the process, whatever the settings call workspace."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = tmp_path / "agenttool.toml"
    settings.write_text(
        '[permissions]\nworkspace = "ws"\ninteractive = false\n\n'
        '[[rules]]\nbehavior = "allow"\ntool = "files.note"\npath = "**"\n'
    )

    @tool(namespace="files")
    def note(path: str) -> str:
        """Write a note. Not for reading."""
        Path(path).write_text("x")
        return "written"

    async with Runtime.open(tools=[note], config=settings) as rt:
        surface = await rt.surface()
        astray = await rt.call("note", {"path": "out/y"}, surface=surface)
        inside = await rt.call("note", {"path": str(tmp_path / "ws" / "y")}, surface=surface)
    assert (astray.status.value, inside.status.value) == ("denied", "succeeded")
    assert not (tmp_path / "out" / "y").exists()


def test_a_runtime_that_is_opened_without_a_loop_names_the_other_door():
    with pytest.raises(ConfigError, match=r"agenttool\.sync\.open"):
        Runtime.open()


async def test_whatever_stands_for_a_tool_can_be_declared_later():
    async def plain(n: int) -> int:
        """Give a number back. Not for text."""
        return n

    async with Runtime.open() as rt:
        for each in (write, plain):
            rt.declare(each)
        assert (await rt.surface()).loaded_tools == ("tool_files.write", "tool_local.plain")
        with pytest.raises(ConfigError, match="not a tool"):
            rt.declare(5)


async def test_leaving_a_view_of_another_conversation_closes_nothing():
    @tool(read_only=True, concurrency_safe=True, open_world=False)
    async def ping() -> str:
        """Ping."""
        return "pong"

    async with Runtime.open(tools=[ping]) as rt:
        async with rt.in_thread("other") as other:
            assert (await other.call("ping", {}, surface=await other.surface())).error is None
        assert (await rt.call("ping", {}, surface=await rt.surface())).error is None


async def test_a_rule_that_is_added_later_holds_in_every_conversation():
    @tool(read_only=True, concurrency_safe=True, open_world=False)
    async def ping() -> str:
        """Ping."""
        return "pong"

    async with Runtime.open(tools=[ping]) as rt:
        other = rt.in_thread("other")
        surface = await other.surface()
        deny = Rule(ref="no", behavior=Behavior.DENY, source=RuleSource.CLI_ARG, tools=("local.ping",))
        await rt.surfaces.change(rules=[deny])
        result = await other.call("ping", {}, surface=surface)
    assert result.error is not None


async def test_an_export_ends_while_calls_continue():
    @tool(read_only=True, concurrency_safe=True, open_world=False)
    async def ping() -> str:
        """Ping."""
        return "pong"

    async with Runtime.open(tools=[ping]) as rt:
        surface = await rt.surface()
        await rt.call("ping", {}, surface=surface)
        calls = set()
        async for record in rt.journal.export():
            calls.add(getattr(record, "invocation_id", None))
            if len(calls) < 1000:
                await rt.call("ping", {}, surface=surface)
    assert len(calls - {None}) == 1


class Database:
    pass


@tool(namespace="files", read_only=True)
def count(database: Annotated[Database, Inject]) -> int:
    """Count."""
    return 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": True}, r'config must be the path of a settings file, or "auto", got True'),
        ({"provide": Database()}, "provide must map types to objects, got a Database; write provide={Database: ...}"),
        ({"tools": [count], "provide": {Database: "text"}}, "parameter 'database' needs a Database, got a str;"),
    ],
)
async def test_a_wrong_option_is_rejected_with_its_remedy(options, message):
    with pytest.raises(ConfigError) as caught:
        async with Runtime.open(**options):
            pass
    assert message in str(caught.value)


@pytest.mark.parametrize("made", [Database(), Database])
async def test_an_object_or_a_function_that_makes_one_is_injected(made):
    async with Runtime.open(tools=[count], provide={Database: made}) as rt:
        assert (await rt.call("count", {})).value == 1


@pytest.mark.parametrize("is_used", [True, False])
async def test_a_call_on_a_closed_runtime_says_that_it_is_closed(is_used):
    async with Runtime.open(tools=[write], rules=ALLOW_ALL) as rt:
        if is_used:
            await rt.call("write", {"path": "a"})
    result = await rt.call("write", {"path": "a"})
    assert (result.error.error_class, result.error.error_code) == ("canceled", "runtime_closed")
    assert result.text.splitlines() == [
        "canceled: this runtime is closed, so the call did not start",
        "Next: report that the tools have been stopped, and that the call did not run.",
    ]


async def test_a_runtime_that_is_opened_without_async_says_how_to_open_it():
    message = r"opened with `async with`; .* `with agenttool.sync.open\(...\)`"
    with pytest.raises(ConfigError, match=message), Runtime.open():
        pass


async def test_a_model_does_not_read_who_refused_its_call():
    async with Runtime.open(tools=[write], approve=lambda _: "deny") as rt:
        result = await rt.call("write", {"path": "a"})
    assert result.text.splitlines()[0] == "approval_rejected: the approver refused the call"

"""The standard's acceptance scenarios 1 to 5: a tool is found, and its arguments are checked, before anything happens."""

import dataclasses
import logging
import sys
from contextlib import contextmanager
from typing import Annotated

import pytest

from agenttool import Runtime, Sensitive, ToolFailure, tool
from agenttool.codec import to_json
from agenttool.records import ErrorClass, ToolError, replace
from agenttool.testing.fakes import scripted_tool

MARKER = "marker-9f3c-77d1"


def a_large_catalog():
    """One tool that is always loaded, and a thousand that wait until a model searches for them."""
    wanted = scripted_tool("create_pull_request", namespace="code", should_defer=True)
    described = replace(wanted.declaration, description="Open a pull request.", search_hint="propose a change")
    many_tools = [scripted_tool(f"chore_{n}", namespace="office", should_defer=True) for n in range(1000)]
    return [
        scripted_tool("read_file", namespace="files", always_load=True),
        dataclasses.replace(wanted, declaration=described),
        *many_tools,
    ]


@pytest.mark.requirement("AT-ACC-01", "AT-DEFER-01")
async def test_01_a_declaration_is_discovered_without_loading_every_tool_into_the_model_context(sound_export):
    async with Runtime.open(tools=a_large_catalog()) as rt:
        surface = await rt.surface()
        found = await rt.search("open a pull request", surface=surface)
        exported = await sound_export(rt)
    assert found.matches[0].name == "code.create_pull_request"
    assert surface.loaded_tools == ("tool_files.read_file", "tool_agenttool.tool_search")
    assert len([each for each in exported if each["record_type"] == "tool_declaration"]) == 1003


@pytest.mark.requirement("AT-ACC-02")
async def test_02_a_deferred_tool_is_found_by_name_and_by_keyword_and_loaded_before_it_is_invoked(allow, call_records):
    async with Runtime.open(tools=a_large_catalog(), rules=allow) as rt:
        surface = await rt.surface()
        too_early = await rt.call("code.create_pull_request", {}, surface=surface)
        by_name = await rt.search("select:code.create_pull_request", surface=surface)
        by_keyword = await rt.search("propose a change", surface=surface)
        surface = await rt.load([match.name for match in by_name.matches], surface=surface)
        result = await rt.call("code.create_pull_request", {}, surface=surface)
        recorded = await call_records(rt, result)
        log = [to_json(event) async for event in rt.journal.export() if to_json(event)["record_type"] == "tool_event"]
    assert too_early.error.error_class == "schema_not_loaded"
    assert by_name.matches[0].name == by_keyword.matches[0].name == "code.create_pull_request"
    assert (result.status.value, recorded.invocation["surface_id"]) == ("succeeded", surface.surface_id)
    order = [event["event_type"] for event in log if event.get("invocation_id") in (None, result.invocation_id)]
    discovered, loaded = order.index("tool.deferred.discovered"), order.index("tool.deferred.loaded")
    assert discovered < loaded < order.index("tool.invocation.planned")


@pytest.mark.requirement("AT-ACC-03", "AT-PIPE-05", "AT-EVT-06")
async def test_03_arguments_are_validated_against_the_schema_before_execution(allow, call, call_records):
    ran = []

    @tool
    async def book(room: str, nights: int) -> str:
        """Book a room. Not for cancellations."""
        ran.append((room, nights))
        return "booked"

    async with Runtime.open(tools=[book], rules=allow) as rt:
        refused = await call_records(rt, await call(rt, "book", {"room": "blue", "nights": "many"}))
        fitting = await call_records(rt, await call(rt, "book", {"room": "blue", "nights": 2}))
    assert ran == [("blue", 2)]
    assert refused.event_types == ["planned", "selected", "validation_failed", "result.created", "yielded", "failed"]
    assert fitting.event_types[:3] == ["planned", "selected", "arguments_ready"]
    assert refused.moves == ["planned", "selected", "yielded", "schema_parse_failed"]
    assert refused.invocation["model_input"] == {"room": "blue", "nights": "many"}
    assert (refused.result["status"], refused.result["is_error"]) == ("failed", True)
    assert refused.result["error"]["error_class"] == "schema_validation_failed"
    assert "/nights" in refused.result["error"]["message"]
    assert refused.result["error"]["retry"]["arguments_must_change"] is True
    assert (refused.decisions, refused.mutations, "started_at" in refused.invocation) == ([], [], False)
    assert fitting.result["status"] == "succeeded"


@pytest.fixture(scope="session")
def traced():
    """Watch what this process really touches: files, sockets, processes."""
    touched = []
    watching = []

    def hear(event, arguments):
        if watching and event.split(".")[0] in ("open", "socket", "subprocess", "shutil", "os"):
            touched.append((event, str(arguments[0]) if arguments else ""))

    sys.addaudithook(hear)

    @contextmanager
    def traced():
        touched.clear()
        watching.append(True)
        try:
            yield touched
        finally:
            watching.pop()

    return traced


@pytest.mark.requirement("AT-ACC-04", "AT-PIPE-07", "AT-INV-10", "AT-ERR-06")
async def test_04_tool_specific_validation_rejects_unsafe_values_before_any_io(
    allow, call, call_records, traced, tmp_path
):
    (tmp_path / "letter.txt").write_text("Dear Ada")

    def stay_inside(arguments):
        if ".." in arguments["path"]:
            raise ToolFailure(
                ToolError(error_class=ErrorClass.INVALID_ARGUMENTS, message="/path must stay inside; drop '..'")
            )

    def is_there(arguments):
        if not (tmp_path / arguments["path"]).read_text():
            raise FileNotFoundError

    async def read(job):
        with open(tmp_path / job.call_input["path"]) as file:  # noqa: ASYNC230, PTH123 -- a probe that is meant to be seen
            return file.read()

    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    probe = dataclasses.replace(
        scripted_tool("read", read, schema=schema), check_values=stay_inside, preflight=is_there
    )
    async with Runtime.open(tools=[probe], rules=allow) as rt:
        surface = await rt.surface()
        await rt.call("read", {"path": "letter.txt"}, surface=surface)
        with traced() as touched:
            good = await rt.call("read", {"path": "letter.txt"}, surface=surface)
        assert [event for event, path in touched if path.endswith("letter.txt")] == ["open", "open"]
        with traced() as touched:
            unsafe = await rt.call("read", {"path": "../secret"}, surface=surface)
        assert touched == []
        recorded = await call_records(rt, unsafe)
        ill_typed = await call_records(rt, await call(rt, "read", {"path": 7}))
    assert good.status == "succeeded"
    assert probe.executor.inputs == [{"path": "letter.txt"}, {"path": "letter.txt"}]
    assert recorded.event_types == [
        "planned",
        "selected",
        "arguments_ready",
        "validation_failed",
        *ill_typed.event_types[-3:],
    ]
    assert (recorded.result["status"], recorded.result["error"]["error_class"]) == ("failed", "invalid_arguments")
    assert ill_typed.result["error"]["error_class"] == "schema_validation_failed"
    assert (recorded.invocation["status"], ill_typed.invocation["status"]) == (
        "validation_failed",
        "schema_parse_failed",
    )
    assert recorded.decisions == []


@pytest.mark.requirement("AT-IO-06")
async def test_05_sensitive_arguments_are_absent_from_whatever_is_recorded_of_a_call_by_default(
    allow, call, sound_export, caplog, capfd
):
    caplog.set_level(logging.DEBUG)
    received = []

    @tool
    async def login(user: str, password: Annotated[str, Sensitive]) -> str:
        """Log in. Not for services."""
        received.append(password)
        if user == "eve":
            raise PermissionError(f"{password} is wrong")
        return f"welcome {user}, your password is {password}"

    async with Runtime.open(tools=[login], rules=allow) as rt:
        results = [await call(rt, "login", {"user": user, "password": MARKER}) for user in ("ada", "eve")]
        misfit = await call(rt, "login", {"user": 5, "password": MARKER})
        nobody = await call(rt, "log_in", {"user": "ada", "password": MARKER})
        followed = []
        async for _, event in rt.journal.events():
            followed.append(to_json(event))
            if event.invocation_id == nobody.invocation_id and event.event_type == "tool.invocation.failed":
                break
        exported = await sound_export(rt)
    printed = capfd.readouterr()
    recorded = repr((results, misfit, nobody, followed, exported, caplog.text, printed))
    assert received == [MARKER, MARKER]
    assert MARKER not in recorded
    shown = [each["model_input"] for each in exported if each["record_type"] == "tool_invocation"][:2]
    assert shown == [{"user": user, "password": "[redacted]"} for user in ("ada", "eve")]

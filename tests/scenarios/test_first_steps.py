"""What a newcomer writes first, through the public interface."""

import asyncio
import inspect
import sys

import pytest
from project_settings import write_settings
from starting import begin

import agenttool
from agenttool import ConfigError, Runtime, SurfacePolicy, ToolCall, sync, tool
from agenttool.adapters.python.options import ToolOptions
from agenttool.records import ToolInterface


@tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    return a + b


@tool(read_only=True, open_world=True, access=["network"])
def look_up(word: str) -> str:
    """Ask a public dictionary."""
    return word


@tool(read_only=True)
def read(path: str) -> str:
    """Return the name of a file."""
    return path


async def test_a_function_that_its_owner_declares_read_only_runs_without_a_question():
    async with Runtime.open(tools=[add]) as rt:
        surface = await rt.surface()
        result = await rt.call("add", {"a": 41}, surface=surface)
        assert (result.status, result.structured_content) == ("succeeded", 42)
        exported = [each async for each in rt.journal.export() if isinstance(each, ToolInterface)]
        interface = next(each for each in exported if each.name == "add")
        assert interface.is_open_world is True
        assert "is_open_world" in interface.inferred_facts


async def test_a_read_only_function_runs_without_a_question_also_if_it_reaches_the_network():
    async with Runtime.open(tools=[look_up], approve="deny") as rt:
        assert (await rt.call("look_up", {"word": "a"})).text == "a"


async def test_a_read_only_function_is_asked_about_if_a_path_is_outside_the_workspace():
    async with Runtime.open(tools=[read], approve="deny") as rt:
        assert (await rt.call("read", {"path": "/etc/passwd"})).error.error_class == "permission_denied"


def test_a_function_without_a_docstring_is_described_by_its_name():
    @tool
    def rename_file(name: str) -> str:
        return name

    assert rename_file.declared.declaration.description == "Rename file"


@tool(read_only=True, should_defer=True)
def rare(n: int) -> int:
    return -n


async def test_a_call_without_a_surface_reaches_every_tool_as_it_is_declared_now():
    async with Runtime.open(tools=[rare], surface=SurfacePolicy(max_tools=0)) as rt:
        assert (await rt.call("rare", {"n": 1})).structured_content == -1
        rt.declare(add)
        results = await rt.batch([ToolCall("add", {"a": 1}), ToolCall("rare", {"n": 2})])
        assert [each.structured_content for each in results] == [2, -2]
        started = await begin(rt, "add", {"a": 2})
        assert (await rt.calls.get(started.invocation_id).result()).structured_content == 3
        rt.retire("local.add")
        assert (await rt.call("add", {"a": 1})).error.error_class == "blocked_tool"
        narrow = await rt.surface(only=["local.add"])
        assert (await rt.call("rare", {"n": 1}, surface=narrow)).error.error_class == "blocked_tool"
    assert (await rt.call("rare", {"n": 1})).abort_reason == "runtime_shutdown"


async def test_the_default_surface_is_made_once_and_follows_the_rules_of_the_runtime():
    async with Runtime.open(tools=[add, rare]) as rt:
        first, second = [await rt.call("add", {"a": each}) for each in (1, 2)]
        invocations = [await rt.journal.invocation(each.invocation_id) for each in (first, second)]
        assert invocations[0].surface_id == invocations[1].surface_id
        await rt.surfaces.change(mode="read_only")
        assert (await rt.call("add", {"a": 1})).structured_content == 2
        async with rt.child(await rt.surface(only=["local.add"])) as child:
            assert (await child.call("add", {"a": 4})).structured_content == 5
            assert (await child.call("rare", {"n": 4})).is_error


async def test_search_without_a_surface_finds_every_tool_and_load_shows_it_to_a_model():
    async with Runtime.open(tools=[add, rare]) as rt:
        found = await rt.search("rare")
        assert found.names == ("local.rare",)
        surface = await rt.load(found)
        assert "tool_local.rare" in surface.loaded_tools


@tool(read_only=True)
def nothing() -> None:
    pass


@tool(read_only=True)
def point() -> dict[str, int]:
    return {"x": 1, "y": 2}


@tool(read_only=True)
def greet(name: str) -> str:
    return f"hello {name}" * 20


async def test_a_result_says_on_one_line_how_a_call_ended_and_has_its_text_value_and_error():
    async with Runtime.open(tools=[add, nothing, point, greet]) as rt:
        results = [await rt.call(name, {}) for name in ("nothing", "point")]
        sum_, failed, greeting = (
            await rt.call("add", {"a": 41}),
            await rt.call("add", {"a": "x"}),
            await rt.call("greet", {"name": "ada\nl"}),
        )
    assert [(each.ok, each.value, each.error) for each in results] == [
        (True, None, None),
        (True, {"x": 1, "y": 2}, None),
    ]
    assert (sum_.ok, sum_.text, sum_.value) == (True, "42", 42)
    assert (failed.ok, failed.value, failed.error.error_class) == (False, None, "schema_validation_failed")
    assert failed.text.startswith("schema_validation_failed: at '/a'")
    assert greeting.value == greeting.text == "hello ada\nl" * 20
    assert repr(sum_) == f"ToolResult(succeeded, '42', {sum_.invocation_id})"
    assert all(len(repr(each).splitlines()) == 1 and len(repr(each)) < 160 for each in (failed, greeting, *results))


async def test_a_rule_is_written_in_python_as_in_the_settings_file():
    @tool
    def hello(name: str) -> str:
        return f"hello {name}"

    rules = [{"behavior": "allow", "tool": "local.hello"}]
    async with Runtime.open(tools=[hello], rules=rules) as rt:
        assert (await rt.call("hello", {"name": "ada"})).text == "hello ada"
        await rt.surfaces.change(rules=[{"behavior": "deny", "tool": "local.hello", "name": "quiet"}])
        assert (await rt.call("hello", {"name": "ada"})).error.error_code == "cli_arg:quiet"


async def test_calls_of_a_batch_that_wait_for_each_other_have_results():
    async with Runtime.open(tools=[add]) as rt:
        calls = [ToolCall("add", {"a": 1}, depends_on=(1,)), ToolCall("add", {"a": 2}, depends_on=(0,))]
        results = await rt.batch(calls)
    assert [each.ok for each in results] == [False, False]
    assert "circle" in results[0].error.message


async def test_settings_are_found_as_on_the_command_line(tmp_path, monkeypatch):
    write_settings(tmp_path / "agenttool.toml", '[[rules]]\nbehavior = "deny"\ntool = "local.add"\nname = "no"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    async with Runtime.open(tools=[add], config="auto") as rt:
        assert (await rt.call("add", {"a": 1})).error.error_code == "project_settings:no"
    async with Runtime.open(tools=[add]) as rt:
        assert (await rt.call("add", {"a": 1})).ok


def test_a_synchronous_runtime_stays_open_between_the_cells_of_a_notebook(tmp_path):
    (tmp_path / "tools_of_cell.py").write_text(
        "from agenttool import tool\n\n@tool(read_only=True)\ndef double(n: int) -> int:\n    return 2 * n\n"
    )
    write_settings(tmp_path / "agenttool.toml", '[sources.cell]\nkind = "python"\nmodule = "tools_of_cell"\n')
    sys.path.insert(0, str(tmp_path))

    async def cell():
        rt = sync.open(tools=[add], config=tmp_path / "agenttool.toml")
        assert rt.call("add", {"a": 1}).value == 2
        assert rt.call("double", {"n": 4}).value == 8
        return rt

    try:
        rt = asyncio.run(cell())
        assert rt.call("add", {"a": 2}).value == 3
        rt.close()
        rt.close()
        with pytest.raises(ConfigError, match="closed"):
            rt.call("add", {"a": 2})
    finally:
        sys.path.remove(str(tmp_path))


def test_every_option_of_the_decorator_is_a_keyword_that_help_describes():
    parameters = inspect.signature(tool).parameters
    assert {each.kind for name, each in parameters.items() if name != "function"} == {inspect.Parameter.KEYWORD_ONLY}
    assert set(ToolOptions.__annotations__) == set(parameters) - {"function"}
    assert all(f"    {name}: " in inspect.getdoc(tool) for name in parameters)


def test_what_guides_need_is_exported():
    assert all(getattr(agenttool, name) is not None for name in agenttool.__all__)
    assert {"Rule", "Question", "Allow", "Deny", "Edit", "Remember", "Answered", "Refused"} <= set(agenttool.__all__)

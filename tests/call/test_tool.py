"""Prepare a tool when it is first called, and reject a tool that cannot be prepared when it is declared."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace as changed

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import Runtime
from agenttool.call.tool import Tools
from agenttool.catalog.catalog import Catalog
from agenttool.errors import ConfigError
from agenttool.policy.rules import Rule
from agenttool.ports.limits import RateLimit
from agenttool.records import Behavior, InputContract, OutputContract, RuleSource, replace
from agenttool.testing.fakes import scripted_tool

ALLOW = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def saying(**declared):
    """Give a tool whose declaration says more."""
    tool = scripted_tool("flawed", schema=TEXT)
    return changed(tool, declaration=replace(tool.declaration, **declared))


def fanning_out():
    """Give a schema of two references to something with two references, forty times over."""
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**doubled, "d40": {}}}


FLAWED = {
    "is no schema": (scripted_tool("flawed", schema={"type": "nothing"}), "the input schema of 'test.flawed' cannot"),
    "points outside": (scripted_tool("flawed", schema={"$ref": "https://a.test/b"}), "may not fetch"),
    "fans out": (scripted_tool("flawed", schema=fanning_out()), "leads through too many references; simplify it"),
    "has very many values": (
        scripted_tool("flawed", schema={"properties": {"a": {"enum": [*range(60_000)]}}}),
        "the input schema of 'test.flawed' cannot be used: a schema has more than 50000 values",
    ),
    "its output has very many values": (
        scripted_tool("flawed", output_schema={"enum": [*range(60_000)]}),
        "output_schema cannot be used: a schema has more than 50000 values",
    ),
    "says two things": (
        saying(input_contract=InputContract(model_input_schema={})),
        "two different model_input_schema",
    ),
    "its runtime's is no schema": (
        saying(input_contract=InputContract(runtime_input_schema={"required": ["a", "a"]})),
        "the input schema of 'test.flawed' cannot",
    ),
    "its enum is too long": (
        scripted_tool("flawed", schema={**TEXT, "properties": {"text": {"enum": [*range(50_001)]}}}),
        "a schema has more than 50000 values",
    ),
    "its example does not fit": (saying(input_contract=InputContract(examples=({"text": 1},))), "example 1 of"),
    "its output is no schema": (scripted_tool("flawed", output_schema={"type": 1}), "output_schema cannot be used"),
    "nothing runs it": (changed(scripted_tool("flawed"), executor=None), "an executor that cannot start"),
    "its limit is a number": (changed(scripted_tool("flawed"), rate_limit=5), "must have a RateLimit or none, got 5"),
    "its output says two things": (
        changed(
            scripted_tool("flawed", output_schema={"type": "string"}),
            declaration=saying(output_contract=OutputContract(structured_schema={"type": "null"})).declaration,
        ),
        "output_schema and structured_schema must be equal",
    ),
}


@pytest.mark.parametrize(("tool", "message"), FLAWED.values(), ids=FLAWED)
async def test_a_tool_that_cannot_be_made_ready_is_refused_when_it_is_declared_and_costs_no_other(tool, message):
    async with Runtime.open(tools=[scripted_tool("before", schema=TEXT)], rules=[ALLOW]) as runtime:
        with pytest.raises(ConfigError, match=message):
            runtime.declare(tool)
        runtime.declare(scripted_tool("after", schema=TEXT))
        surface = await runtime.surface()
        assert {"tool_test.before", "tool_test.after"} <= {*surface.loaded_tools}
        assert "tool_test.flawed" not in surface.loaded_tools


async def test_of_many_tools_only_those_that_are_called_are_made_ready():
    tools = [scripted_tool(f"tool_{number}", schema=TEXT) for number in range(50)]
    async with Runtime.open(tools=tools, rules=[ALLOW]) as runtime:
        surface = await runtime.surface()
        assert len(runtime._core.tools) == 0
        await runtime.call("tool_7", {"text": "a"}, surface=surface)
        await runtime.call("tool_7", {"text": "a"}, surface=surface)
        assert [entry.name for entry in runtime._core.tools] == ["tool_7"]


async def test_a_tool_that_is_declared_again_and_again_is_stored_once():
    async with Runtime.open(tools=[scripted_tool("tool", schema=TEXT)], rules=[ALLOW]) as runtime:
        for _ in range(20):
            surface = await runtime.surface()
            await runtime.call("tool", {"text": "a"}, surface=surface)
            runtime.declare(scripted_tool("tool", schema=TEXT))
        assert len(runtime._core.tools) <= 1
        assert len(runtime._core.tools.subjects) <= 1


async def test_a_surface_from_before_a_tool_was_replaced_still_calls_what_it_had():
    async def old(job):
        return "old"

    async def new(job):
        return "new"

    async with Runtime.open(tools=[scripted_tool("tool", old, schema=TEXT)], rules=[ALLOW]) as runtime:
        before = await runtime.surface()
        await runtime.call("tool", {"text": "a"}, surface=before)
        runtime.declare(scripted_tool("tool", new, schema=TEXT))
        after = await runtime.surface()
        said = [await runtime.call("tool", {"text": "a"}, surface=each) for each in (before, after)]
        assert [each.content[0].text for each in said] == ["old", "new"]


def test_threads_that_ask_at_once_get_one_tool():
    limited = changed(scripted_tool("tool", schema=TEXT), rate_limit=RateLimit(per_second=1))
    entry = Catalog().prepare(limited)[0]
    for _ in range(50):
        tools, ready = Tools(), threading.Barrier(4, timeout=30)

        def ask(tools=tools, ready=ready):
            ready.wait()
            return tools[entry]

        with ThreadPoolExecutor(4) as pool:
            found = [each.result(30) for each in [pool.submit(ask) for _ in range(4)]]
        assert len({*map(id, found)}) == 1


KEYWORDS = [
    "type",
    "properties",
    "required",
    "items",
    "anyOf",
    "$ref",
    "$defs",
    "enum",
    "pattern",
    "minimum",
    "$schema",
]
words = st.sampled_from(["string", "object", "a", "#/$defs/a", "#", "(", "https://a.test", "null", ""])
schemas = st.recursive(
    st.one_of(words, st.integers(-2, 2), st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), schemas, max_size=4), schemas)
def test_whatever_is_admitted_can_be_made_ready(schema, output):
    said = {"output_schema": output} if isinstance(output, dict) else {}
    tools = Tools()
    try:
        entry = Catalog().prepare(scripted_tool("tool", schema=schema, **said))[0]
        tools.admit(entry)
    except ConfigError:
        return
    assert tools[entry].subject.fields is not None
    assert tools[entry].check_model is not None

"""Schemas that would fetch, hang, or mean nothing."""

import subprocess
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agenttool import ConfigError, Runtime
from agenttool.testing.fakes import scripted_tool


@pytest.fixture
def server():
    """A server on the loopback that counts who asks it for a schema."""
    hits = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            hits.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type":"object"}')

        def log_message(self, *_):
            pass

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{found.server_port}", hits
    found.shutdown()
    thread.join(30)
    found.server_close()


async def refused(schema):
    with pytest.raises(ConfigError) as error:
        Runtime.open(tools=[scripted_tool("odd", schema=schema)])
    return str(error.value)


async def test_a_schema_elsewhere_is_refused_when_the_tool_is_declared_and_never_fetched(server, once):
    address, hits = server
    for schema in (
        {"$ref": f"{address}/a.json"},
        {"type": "object", "properties": {"a": {"$ref": f"{address}/a.json#/x"}}},
        {"$id": f"{address}/root.json", "$ref": "beside.json"},
        {"$dynamicRef": f"{address}/a.json"},
    ):
        assert "test.odd" in await refused(schema)
    named = {"$id": f"{address}/root.json", "$schema": f"{address}/meta.json", "type": "object"}
    assert not (await once(scripted_tool("named", schema=named), {})).is_error
    assert hits == []


@pytest.mark.parametrize("address", ["file:///etc/passwd", "beside.json", "#/$defs/nowhere", "#nowhere", "urn:x:y"])
async def test_a_reference_that_leads_out_or_nowhere_is_refused_with_its_name(address):
    message = await refused({"$ref": address})
    assert "'test.odd'" in message
    assert address.rsplit("/", 1)[-1].strip("#") in message


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$defs": {"n": {"properties": {"a": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"},
    ],
    ids=["itself", "a pair", "a tree"],
)
async def test_a_schema_that_leads_back_to_itself_can_be_used(once, schema):
    value = {}
    for _ in range(50):
        value = {"a": value}
    assert not (await once(scripted_tool("round", schema=schema), value)).is_error


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        [],
        "object",
        5,
        {"type": "objct"},
        {"type": 5},
        {"required": "a"},
        {"properties": []},
        {"minimum": "x"},
        {"properties": {"a": {"pattern": "("}}},
        {"pattern": "a{1,1000000000}"},
        {"minimum": float("nan")},
        {"x-note": object()},
        {"description": "\ud800"},
    ],
    ids=lambda schema: repr(schema)[:30],
)
async def test_what_is_no_schema_is_refused_when_the_tool_is_declared(schema):
    assert "'odd'" in (message := await refused(schema)) or "'test.odd'" in message


async def test_a_schema_of_ten_thousand_levels_is_refused():
    schema = {"type": "object"}
    for _ in range(10_000):
        schema = {"properties": {"a": schema}}
    assert "recursion" in await refused(schema)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {"a": False}}, "at '/a': expected nothing here; leave it out"),
        ({"allOf": [False]}, "expected nothing here"),
        ({"type": "string"}, "at '/': expected string"),
        ({"properties": {"a": {"enum": []}}}, "at '/a'"),
    ],
)
async def test_a_schema_that_nothing_fits_says_so_at_each_call(once, schema, message):
    result = await once(scripted_tool("picky", schema=schema), {"a": 1})
    assert result.error.error_class == "schema_validation_failed"
    assert message in result.error.message


async def test_a_schema_of_true_takes_anything_there(once):
    assert not (await once(scripted_tool("easy", schema={"properties": {"a": True}}), {"a": [None]})).is_error


HOSTILE = r"""
    import asyncio
    from agenttool import Runtime
    from agenttool.errors import ConfigError
    from agenttool.testing.fakes import scripted_tool

    async def main():
        for pattern, text in (
            ("^(a+)+$", "a" * 5000 + "!"),
            ("(?=(a+)+$)x", "a" * 5000),
            (r"^(a|b|ab)*c\1$", "ab" * 2000),
            (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 5000),
            (r"(.*)*(.*)*\2$", "x" * 3000 + "\n"),
        ):
            by_value = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
            by_name = {"type": "object", "patternProperties": {pattern: False}}
            async with Runtime.open(tools=[scripted_tool("value", schema=by_value)], approve="deny") as rt:
                first = await rt.call("value", {"a": text}, surface=await rt.surface())
                print(first.error.error_class, flush=True)
                try:
                    rt.declare(scripted_tool("name", schema=by_name))
                except ConfigError as error:
                    assert "has look-around or a back reference" in str(error)
                else:
                    await rt.call("name", {text: 1}, surface=await rt.surface())
    asyncio.run(main())
"""


@pytest.mark.slow
def test_a_pattern_that_backtracks_for_ever_ends_within_a_bound():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HOSTILE)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["schema_validation_failed"] * 5

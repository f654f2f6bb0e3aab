"""Servers that others wrote: a client gets the same from them directly and through the gateway, over stdio and HTTP.

What the gateway changes is in `governed`; everything else must be equal.
"""

import asyncio
import json
import re
import sys
from contextlib import AsyncExitStack, suppress

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from real_mcp_servers import USED, make_folder

from agenttool import McpServer, Runtime, SurfacePolicy
from agenttool.mcp.http import McpOptions, serve_http
from agenttool.server.app import serve_runtime
from agenttool.server.state import ServerOptions

pytestmark = pytest.mark.soak

RULES = [{"behavior": "allow", "tool": "real.*"}]
ALL = SurfacePolicy(max_tools=None, max_tokens=None)
MAX_ENTRIES = 15
"""How many resources and prompts of a server are read."""

CHANGING = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b1[78]\d{11}\b"  # a moment
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"  # a random identifier
)
ADDED = ("agenttool/", "io.modelcontextprotocol/serverInfo")
HINTS = ("readOnlyHint", "destructiveHint", "openWorldHint", "idempotentHint")


def plain(value, folder):
    text = json.dumps(value.model_dump(by_alias=True, exclude_none=True, mode="json"))
    return json.loads(CHANGING.sub("0", text.replace(str(folder), "FOLDER")))


def without_added(result):
    """Return a result without the members that the gateway, or the revision of the protocol, adds."""
    meta = {key: each for key, each in result.pop("_meta", {}).items() if not key.startswith(ADDED)}
    stored = {key: each for key, each in result.items() if key not in ("resultType", "ttlMs", "cacheScope")}
    return {**stored, **({"_meta": meta} if meta else {})}


def comparable(tool):
    """Return a definition without hints, which the gateway replaces by what it assumes."""
    hints = {key: each for key, each in tool.pop("annotations", {}).items() if key not in HINTS}
    tool = without_added(tool)
    title = tool.pop("title", None) or hints.pop("title", None)
    tool.pop("execution", None)  # the gateway offers tasks by an extension of the protocol
    return {**tool, "annotations": {key: each for key, each in hints.items() if key != "title"}, "title": title}


async def everything_of(client, server, folder):
    """Return all lists of a server, and what each call, resource and prompt returns."""
    found = {}
    tools = [comparable(plain(each, folder)) for each in (await client.list_tools()).tools]
    # One server has more tools for clients that can ask their users, which the gateway can.
    own = [each for each in tools if each["name"] != "read_result" and not each["name"].startswith("trigger-")]
    found["tools"] = {each["name"]: each for each in own}
    capabilities = client.server_capabilities
    resources, prompts = [], []
    templates = []
    if capabilities.resources is not None:
        resources = (await client.list_resources()).resources
        with suppress(MCPError):  # some servers have none
            templates = (await client.list_resource_templates()).resource_templates
    if capabilities.prompts is not None:
        prompts = (await client.list_prompts()).prompts
    found["templates"] = sorted((plain(each, folder) for each in templates), key=lambda each: each["uriTemplate"])
    found["resources"] = sorted((plain(each, folder) for each in resources), key=lambda each: each["uri"])
    found["prompts"] = sorted((plain(each, folder) for each in prompts), key=lambda each: each["name"])
    for each in sorted(resources, key=lambda each: each.uri)[:MAX_ENTRIES]:
        # Over HTTP, the client of the SDK refuses events above 1 MiB, which the pages of these servers need.
        if server.name not in ("pdf", "threejs"):
            found[f"read {each.uri}"] = await outcome(client.read_resource(each.uri), folder)
    for each in sorted(prompts, key=lambda each: each.name)[:MAX_ENTRIES]:
        arguments = {argument.name: "1" for argument in each.arguments or ()}
        found[f"prompt {each.name}"] = await outcome(client.get_prompt(each.name, arguments), folder)
    for number, (name, arguments) in enumerate(server.calls):
        filled = json.loads(json.dumps(arguments).replace("{dir}", str(folder)))
        result = await outcome(client.call_tool(name, filled), folder)
        found[f"call {number} {name} {arguments}"] = shape_of(result) if server.is_random else result
    return found


def shape_of(value):
    """Return a value with the types of its parts in place of the parts; a text may be JSON itself."""
    if isinstance(value, dict):
        return {key: shape_of(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape_of(each), sort_keys=True) for each in value})
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            return shape_of(json.loads(value))
    return "number" if isinstance(value, int | float) else type(value).__name__


async def outcome(reply, folder):
    try:
        return without_added(plain(await reply, folder))
    except MCPError as error:
        return f"error {error.code}: {error.message}".replace(str(folder), "FOLDER")


def program(server, folder):
    command = [each.replace("{dir}", str(folder)) for each in server.command()]
    return command, server.environment(folder)


@pytest.fixture
def fresh(tmp_path):
    def made(name):
        folder = tmp_path / name
        folder.mkdir()
        make_folder(folder)
        return folder

    return made


async def bare(server, folder, log):
    command, env = program(server, folder)
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=folder)
    async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
        return await everything_of(client, server, folder)


async def over_stdio(server, folder, log):
    command, env = program(server, folder)
    variables = "".join(f"{key} = {json.dumps(value)}\n" for key, value in env.items())
    settings = (
        f'[sources.real]\nkind = "mcp"\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n'
        f"cwd = {json.dumps(str(folder))}\n[sources.real.env]\n{variables}\n"
        '[[rules]]\nbehavior = "allow"\ntool = "real.*"\n'
        "[surface]\nmax_tools = false\nmax_tokens = false\n"  # lists with hundreds of tools are compared, too
    )
    place = folder.parent / f"{folder.name}.toml"
    place.write_text(settings)
    words = ["-m", "agenttool", "mcp", "--settings", str(place), "--store", str(folder.parent / f"{folder.name}.db")]
    parameters = StdioServerParameters(command=sys.executable, args=words, cwd=folder.parent)
    async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
        return await everything_of(client, server, folder)


async def over_http(server, folder, serve_app):
    command, env = program(server, folder)
    source = McpServer("real", command=command[0], args=tuple(command[1:]), env=env, cwd=str(folder))
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(Runtime.open(sources=[source], rules=RULES, surface=ALL))
        mcp = await stack.enter_async_context(serve_http(runtime, {"": McpOptions()}))
        app = await stack.enter_async_context(serve_runtime(runtime, ServerOptions(), mcp=mcp))
        url = await stack.enter_async_context(serve_app(app, lifespan="off"))
        client = await stack.enter_async_context(Client(f"{url}/mcp", mode="legacy"))
        return await everything_of(client, server, folder)


def differences(expected, found, path=""):
    """Return each place where two JSON values differ, with both values."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = dict.fromkeys((*expected, *found))
        pairs = [(f"{path}/{key}", expected.get(key, "absent"), found.get(key, "absent")) for key in keys]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = [(f"{path}/{at}", *pair) for at, pair in enumerate(zip(expected, found, strict=True))]
    else:
        return [] if expected == found else [(path, str(expected)[:300], str(found)[:300])]
    return [each for place, one, other in pairs for each in differences(one, other, place)]


@pytest.mark.parametrize("server", USED, ids=lambda each: each.name)
async def test_a_server_answers_alike_directly_and_through_the_gateway(server, fresh, serve_app, tmp_path):
    with (tmp_path / "stderr").open("w") as log:
        expected = await bare(server, fresh("bare"), log)
        stdio = await over_stdio(server, fresh("stdio"), log)
    http = await over_http(server, fresh("http"), serve_app)
    for task in asyncio.all_tasks():
        if "_shutdown_watcher" in repr(task):  # sse-starlette leaves it running
            task.cancel()
    assert expected["tools"]
    assert not (found := differences(expected, stdio)), "\n".join(map(str, found))
    assert not (found := differences(expected, http)), "\n".join(map(str, found))

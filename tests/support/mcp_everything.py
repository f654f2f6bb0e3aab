"""The tools, resources and prompts that the official conformance suite expects of a server, with our public API.

`agenttool serve --from everything` serves the tools; `source` in a settings file adds resources and prompts.
"""

import asyncio
import base64
import itertools
import json
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams

from agenttool import Context, McpServer, Media, Runtime, make_tool, tool
from agenttool.adapters.mcp.source import McpSource
from agenttool.adapters.python.source import declared
from agenttool.cli.http_server import bind, run_server
from agenttool.errors import CallerError
from agenttool.mcp.http import McpOptions, serve_http
from agenttool.mcp.tasks import TASK_AFTER_S
from agenttool.ports.caller import CALLER
from agenttool.ports.output import NativeOutput
from agenttool.records import ContentClass, ContentItem
from agenttool.records import replace as replace_record
from agenttool.server.app import serve_runtime

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"

free = tool(read_only=True, concurrency_safe=True)


def schema(required=(), **properties):
    return {"type": "object", "properties": properties, "required": [*required]}


async def ask(method, params, key=None):
    caller = CALLER.get()
    if caller is None:
        raise CallerError("there is no client to ask")
    return await caller.request(method, params, key=key)


async def elicit(message, wanted, key=None):
    return await ask("elicitation/create", {"message": message, "requestedSchema": wanted}, key)


def sampled(text, tokens=100):
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"messages": [message], "maxTokens": tokens}


def text_in(reply):
    content = reply["content"]
    return (content[0] if isinstance(content, list) else content)["text"]


def resource(uri, media_type, text):
    return ContentItem(type=ContentClass.EMBEDDED_RESOURCE, uri=uri, media_type=media_type, text=text)


@free
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@free
def test_image_content() -> Media:
    """Return an image."""
    return Media(PNG, "image/png")


@free
def test_audio_content() -> Media:
    """Return audio."""
    return Media(WAV, "audio/wav")


@free
def test_embedded_resource() -> NativeOutput:
    """Return an embedded resource."""
    text = "This is an embedded resource content."
    return NativeOutput(content=(resource("test://embedded-resource", "text/plain", text),))


@free
def test_multiple_content_types() -> NativeOutput:
    """Return several kinds of content."""
    text = ContentItem(type=ContentClass.TEXT, text="Multiple content types test:")
    data = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return NativeOutput(content=(text, Media(PNG, "image/png"), data))


@free
def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@free
async def test_tool_with_logging() -> str:
    """Send log messages."""
    caller = CALLER.get()
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await caller.log("info", message)
        await asyncio.sleep(0.05)
    return "logged"


@free
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress."""
    for percent in (0, 50, 100):
        ctx.progress(f"Completed step {percent} of 100", percent=percent)
        await asyncio.sleep(0.05)
    return "done"


@free
async def test_sampling(prompt: str) -> str:
    """Let the model of the client write something."""
    return f"LLM response: {text_in(await ask('sampling/createMessage', sampled(prompt)))}"


@free
async def test_elicitation(message: str) -> str:
    """Ask the user."""
    text = {"type": "string"}
    wanted = schema(
        ["username", "email"],
        username={**text, "description": "User's response"},
        email={**text, "description": "User's email address"},
    )
    reply = await elicit(message, wanted)
    return f"User response: <action: {reply['action']}, content: {json.dumps(reply.get('content'))}>"


async def elicited(wanted):
    reply = await elicit("Please fill in the form", wanted)
    return f"Elicitation completed: action={reply['action']}, content={json.dumps(reply.get('content', {}))}"


@free
async def test_elicitation_sep1034_defaults() -> str:
    """Ask with defaults."""
    return await elicited(
        schema(
            name={"type": "string", "description": "Name", "default": "John Doe"},
            age={"type": "integer", "description": "Age", "default": 30},
            score={"type": "number", "description": "Score", "default": 95.5},
            status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            verified={"type": "boolean", "description": "Verified", "default": True},
        )
    )


@free
async def test_elicitation_sep1330_enums() -> str:
    """Ask with choices."""
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{number}", "title": f"{word} Option"}
        for number, word in enumerate(("First", "Second", "Third"), 1)
    ]
    chosen = [{**each, "title": each["title"].replace("Option", "Choice")} for each in titled]
    return await elicited(
        schema(
            untitledSingle={"type": "string", "enum": options},
            titledSingle={"type": "string", "oneOf": titled},
            legacyEnum={
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
            titledMulti={"type": "array", "items": {"anyOf": chosen}},
        )
    )


NAME = schema(["name"], name={"type": "string"})


@free
async def test_input_required_result_elicitation() -> str:
    """Ask for a name."""
    reply = await elicit("What is your name?", NAME, "user_name")
    return f"Hello, {(reply.get('content') or {}).get('name')}!"


@free
async def test_input_required_result_sampling() -> str:
    """Ask the model of the client."""
    return text_in(await ask("sampling/createMessage", sampled("What is the capital of France?"), "capital_question"))


@free
async def test_input_required_result_list_roots() -> str:
    """Ask for the roots of the client."""
    return json.dumps(await ask("roots/list", {}, "client_roots"))


@free
async def test_input_required_result_request_state() -> str:
    """Ask for a confirmation."""
    await elicit("Please confirm", schema(["ok"], ok={"type": "boolean"}), "confirm")
    return "state-ok"


@free
async def test_input_required_result_tampered_state() -> str:
    """Ask for a confirmation."""
    await elicit("Please confirm", schema(["ok"], ok={"type": "boolean"}), "confirm")
    return "state-ok"


@free
async def test_input_required_result_multiple_inputs() -> str:
    """Ask for three things at once."""
    replies = await asyncio.gather(
        elicit("What is your name?", NAME, "user_name"),
        ask("sampling/createMessage", sampled("Generate a greeting", 50), "greeting"),
        ask("roots/list", {}, "client_roots"),
    )
    return json.dumps(replies)


@free
async def test_input_required_result_multi_round() -> str:
    """Ask twice."""
    name = await elicit("Step 1: What is your name?", NAME, "step1")
    wanted = schema(["color"], color={"type": "string"})
    color = await elicit("Step 2: What is your favorite color?", wanted, "step2")
    return f"{name['content']['name']} likes {color['content']['color']}"


@free
async def test_input_required_result_capabilities() -> str:
    """Ask only what the client can answer."""
    caller = CALLER.get()
    requests = (
        ("elicitation/create", {"message": "What is your name?", "requestedSchema": NAME}, "user_name"),
        ("sampling/createMessage", sampled("Generate a greeting"), "greeting"),
    )
    wanted = [ask(*each) for each in requests if caller.accepts(each[0])]
    return json.dumps(await asyncio.gather(*wanted))


@free
async def test_missing_capability() -> str:
    """Ask the model of the client."""
    return text_in(await ask("sampling/createMessage", sampled("Hello")))


SCHEMA_2020: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


RESOURCES = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", PNG),
    "test://watched-resource": ("text/plain", "This one changes."),
}
TEMPLATE = "test://template/{id}/data"
CONTEXT = schema(["context"], context={"type": "string"})
PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


class Everything(McpSource):
    """Resources and prompts of the suite, as a source: those of a server in this process."""

    def __init__(self):
        super().__init__(McpServer("everything", command="none"))
        self.bus = InMemorySubscriptionBus()
        self.in_process = Server(
            "everything",
            on_list_tools=self.list_tools,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_completion=self.complete,
            on_subscribe_resource=self.subscribe_resource,
            on_unsubscribe_resource=self.subscribe_resource,
            on_subscriptions_listen=ListenHandler(self.bus),
        )

    @asynccontextmanager
    async def _transport(self, actor, lines, session_id):
        async with (
            create_client_server_memory_streams() as (client, server),
            anyio.create_task_group() as tasks,
        ):
            options = self.in_process.create_initialization_options(NotificationOptions(prompts_changed=True))
            tasks.start_soon(self.in_process.run, *server, options)
            yield client
            tasks.cancel_scope.cancel()

    async def change_prompts(self):
        await self.bus.publish(PromptsListChanged())

    async def list_tools(self, context, params):
        return types.ListToolsResult(tools=[])

    async def list_resources(self, context, params):
        found = [
            {"uri": uri, "name": uri.removeprefix("test://"), "description": "A resource", "mimeType": media_type}
            for uri, (media_type, _) in RESOURCES.items()
        ]
        return types.ListResourcesResult.model_validate({"resources": found})

    async def list_templates(self, context, params):
        found = {"uriTemplate": TEMPLATE, "name": "template", "description": "Data", "mimeType": "application/json"}
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [found]})

    async def list_prompts(self, context, params):
        found = [
            {
                "name": name,
                "description": "A prompt",
                "arguments": [{"name": each, "description": "A text", "required": True} for each in arguments],
            }
            for name, arguments in PROMPTS.items()
        ]
        return types.ListPromptsResult.model_validate({"prompts": found})

    async def subscribe_resource(self, context, params):
        if params.uri not in RESOURCES:
            raise MCPError(types.INVALID_PARAMS, "Resource not found")
        return types.EmptyResult()

    async def read_resource(self, context, params):
        uri = params.uri
        head, tail = TEMPLATE.split("{id}")
        if uri in RESOURCES:
            media_type, data = RESOURCES[uri]
            body = {"text": data} if isinstance(data, str) else {"blob": base64.b64encode(data).decode()}
        elif uri.startswith(head) and uri.endswith(tail):
            number, media_type = uri.removeprefix(head).removesuffix(tail), "application/json"
            body = {"text": json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})}
        else:
            raise MCPError(-32002, "Resource not found")
        contents = {"uri": uri, "mimeType": media_type, **body}
        return types.ReadResourceResult.model_validate({"contents": [contents]})

    async def get_prompt(self, context, params):
        arguments = params.arguments or {}
        match params.name:
            case "test_simple_prompt":
                said = prompt("This is a simple prompt for testing.")
            case "test_prompt_with_arguments":
                said = prompt(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")
            case "test_prompt_with_embedded_resource":
                uri = arguments["resourceUri"]
                text = "Embedded resource content for testing."
                block = {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}}
                said = prompt(block, "Please process the embedded resource above.")
            case "test_prompt_with_image":
                block = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
                said = prompt(block, "Please analyze the image above.")
            case "test_input_required_result_prompt":
                reply = (params.input_responses or {}).get("user_context")
                if reply is None:
                    asked = {"message": "What context should the prompt use?", "requestedSchema": CONTEXT}
                    request = {"method": "elicitation/create", "params": asked}
                    return types.InputRequiredResult.model_validate({"inputRequests": {"user_context": request}})
                said = prompt(f"Use the context {(reply.content or {}).get('context')}")
            case _:
                raise MCPError(types.INVALID_PARAMS, f"no prompt is named {params.name!r}")
        return types.GetPromptResult.model_validate(said)

    async def complete(self, context, params):
        values = [each for each in ("paris", "park", "party") if each.startswith(params.argument.value)]
        completion = {"values": values, "total": len(values), "hasMore": False}
        return types.CompleteResult.model_validate({"completion": completion})


def prompt(*blocks):
    blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
    return {"messages": [{"role": "user", "content": each} for each in blocks]}


async def nothing(**arguments):
    """Return the arguments."""
    return json.dumps(arguments)


@free
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


long = tool(read_only=True, concurrency_safe=True, background=True)


@long
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some time."""
    await asyncio.sleep(seconds)
    return f"computed {label}"


@long
async def failing_job() -> str:
    """Fail after a second."""
    await asyncio.sleep(1)
    raise ValueError("the job failed")


@long
async def protocol_error_job() -> dict[str, int]:
    """Return something else than declared."""
    return {"count": "not a number"}


@long
async def confirm_delete(filename: str) -> str:
    """Ask before a file is deleted."""
    reply = await elicit(f"Delete {filename}?", schema(["confirm"], confirm={"type": "boolean"}))
    return f"{filename}: {json.dumps(reply.get('content'))}"


@long
async def multi_input() -> str:
    """Ask for two things at once."""
    wanted = schema(["name"], name={"type": "string"})
    return json.dumps(await asyncio.gather(elicit("First?", wanted, "first"), elicit("Second?", wanted, "second")))


@free
async def test_tool_with_task() -> str:
    """Ask for a name, and then take longer than a request may."""
    reply = await elicit("What is your name?", NAME, "user_name")
    await asyncio.sleep(TASK_AFTER_S + 1)
    return f"Hello, {reply['content']['name']}!"


@free
async def test_reconnection() -> str:
    """Close the stream of this request before it ends; the client resumes it."""
    close = CALLER.get().context.close_sse_stream
    if close is not None:
        await close()
        await asyncio.sleep(1.5)
    return "resumed"


def only_as_task(given):
    """Return a tool that only runs as a task."""
    made = declared(given)
    annotations = {"mcp": {"execution": {"taskSupport": "required"}}}
    return replace(made, declaration=replace_record(made.declaration, annotations=annotations))


HEADERS = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
    "required": ["region"],
}

TOOLS = [each for name, each in list(globals().items()) if name.startswith("test_")]
TOOLS.append(make_tool("json_schema_2020_12_tool", SCHEMA_2020, nothing, read_only=True, concurrency_safe=True))
TOOLS += [greet, slow_compute, protocol_error_job, confirm_delete, multi_input, only_as_task(failing_job)]
TOOLS.append(make_tool("header_tool", HEADERS, nothing, read_only=True, concurrency_safe=True))


def add_triggers(runtime, source):
    """Declare tools that change the lists."""
    count = itertools.count()

    @tool(read_only=True)
    def test_trigger_tool_change() -> str:
        """Add a tool."""
        runtime.declare(
            make_tool(
                f"added_{next(count)}",
                {"type": "object", "properties": {}},
                nothing,
                read_only=True,
                concurrency_safe=True,
            )
        )
        return "changed"

    @tool(read_only=True)
    async def test_trigger_prompt_change() -> str:
        """Change the prompts."""
        await source.change_prompts()
        return "changed"

    runtime.declare(test_trigger_tool_change)
    runtime.declare(test_trigger_prompt_change)


def main():
    port = int(sys.argv[1])
    with bind("127.0.0.1", port) as listening:

        @asynccontextmanager
        async def app():
            source = Everything()
            async with (
                Runtime.open(tools=TOOLS, sources=[source], store=sys.argv[2], approve="wait") as runtime,
                serve_http(runtime, {"": McpOptions()}) as mcp,
                serve_runtime(runtime, mcp=mcp) as served,
            ):
                add_triggers(runtime, source)
                yield served

        run_server(listening, app(), lambda: print("ready", flush=True))


if __name__ == "__main__":
    main()

"""A server of the SDK whose tools and prompt ask their client: on standard input and output, or on the port that it gets."""

import sys

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTION = types.ElicitRequest(params=types.ElicitRequestFormParams(message="Your name?", requested_schema=NAME))
PROMPT = types.SamplingMessage(role="user", content=types.TextContent(text="Greet her"))
SAMPLE = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[PROMPT], max_tokens=9))


class Named(BaseModel):
    """The answer to a question."""

    name: str


server = MCPServer("up", log_level="ERROR")


@server.tool()
async def ask_while_open(ctx: Context) -> str:
    """Ask in the way of older revisions."""
    await ctx.info("asking")
    name = (await ctx.elicit("Your name?", Named)).data.name
    sampled = await ctx.session.create_message([PROMPT], max_tokens=9, related_request_id=ctx.request_id)
    return f"{sampled.content.text}, {name}"


@server.tool()
async def ask_and_end(ctx: Context) -> str | types.InputRequiredResult:
    """Ask in the way of the newest revision."""
    await ctx.info("asking")
    given = ctx.input_responses or {}
    if not given:
        wanted = {"who": QUESTION, "greeting": SAMPLE, "folders": types.ListRootsRequest()}
        return types.InputRequiredResult(input_requests=wanted, request_state="asked")
    folders = [str(each.uri) for each in given["folders"].roots]
    return f"{given['greeting'].content.text}, {given['who'].content['name']} {folders} {ctx.request_state}"


@server.tool()
async def ask_two_questions(ctx: Context) -> str | types.InputRequiredResult:
    """Ask two questions at once."""
    given = ctx.input_responses
    if not given:
        return types.InputRequiredResult(input_requests={"first": QUESTION, "second": QUESTION})
    return " and ".join(given[key].content["name"] for key in ("first", "second"))


@server.tool()
async def need_sampling(ctx: Context) -> str:
    """Require a capability of the client."""
    if ctx.client_capabilities.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is required", needed)
    return "declared"


@server.prompt()
async def greet(ctx: Context) -> list[UserMessage] | types.InputRequiredResult:
    """Ask before the prompt is complete."""
    given = ctx.input_responses
    if not given:
        return types.InputRequiredResult(input_requests={"who": QUESTION})
    return [UserMessage(content=types.TextContent(text=f"Greet {given['who'].content['name']}"))]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()

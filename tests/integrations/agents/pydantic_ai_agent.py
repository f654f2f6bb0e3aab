"""An agent of Pydantic AI."""

import asyncio
import json

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from shop import OPTIONS, ORDER, STOCK, recorded

from agenttool import Runtime
from agenttool.integrations import pydantic_ai

SCRIPT = [
    [ToolCallPart("stock", STOCK, "call_1"), ToolCallPart("order", ORDER, "call_2")],
    [ToolCallPart("stock", {"article": 7}, "call_3")],
    [TextPart("There is enough.")],
]


def reply(messages, info):
    assert sorted(each.name for each in info.function_tools) == ["order", "stock"]
    assert info.function_tools[0].parameters_json_schema["properties"]["article"]["type"] == "string"
    return ModelResponse(parts=SCRIPT[sum(isinstance(each, ModelResponse) for each in messages)])


async def main():
    async with Runtime.open(**OPTIONS) as rt:
        agent = Agent(FunctionModel(reply), tools=await pydantic_ai.tools(rt))
        done = await agent.run("How much is left?")
        parts = [part for message in done.all_messages() for part in message.parts]
        outputs = [each.content for each in parts if isinstance(each, ToolReturnPart)]
        print(json.dumps({"text": done.output, "outputs": outputs, "calls": await recorded(rt)}))


asyncio.run(main())

"""An agent of the OpenAI Agents SDK, with the client of OpenAI; the address of the API is the argument."""

import asyncio
import json
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI
from shop import OPTIONS, recorded

from agenttool import Runtime
from agenttool.integrations import openai_agents


async def main(url):
    set_tracing_disabled(True)
    async with Runtime.open(**OPTIONS) as rt, AsyncOpenAI(base_url=url, api_key="none") as client:
        model = OpenAIChatCompletionsModel("m", client)
        agent = Agent(name="Clerk", model=model, tools=await openai_agents.tools(rt))
        done = await Runner.run(agent, "How much is left?")
        outputs = [each.output for each in done.new_items if each.type == "tool_call_output_item"]
        print(json.dumps({"text": done.final_output, "outputs": outputs, "calls": await recorded(rt)}))


asyncio.run(main(sys.argv[1]))

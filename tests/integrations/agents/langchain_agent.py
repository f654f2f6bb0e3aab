"""An agent of LangChain, which runs on LangGraph; `sync` as argument uses the synchronous runtime."""

import asyncio
import json
import sys

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from shop import OPTIONS, ORDER, STOCK, recorded

from agenttool import Runtime, sync
from agenttool.integrations import langchain


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        self.disable_streaming = True
        assert sorted(each.name for each in tools) == ["order", "stock"]
        return self


def model():
    calls = [{"name": "stock", "args": STOCK, "id": "call_1"}, {"name": "order", "args": ORDER, "id": "call_2"}]
    wrong = [{"name": "stock", "args": {"article": 7}, "id": "call_3"}]
    replies = [AIMessage("", tool_calls=calls), AIMessage("", tool_calls=wrong), AIMessage("There is enough.")]
    return Scripted(messages=iter(replies))


def report(state, calls):
    messages = [each for each in state["messages"] if each.type == "tool"]
    outputs = [[each.status, each.text, each.artifact and each.artifact.status] for each in messages]
    print(json.dumps({"text": state["messages"][-1].text, "outputs": outputs, "calls": calls}))


async def main():
    async with Runtime.open(**OPTIONS) as rt:
        agent = create_agent(model(), tools=await langchain.tools(rt))
        state = await agent.ainvoke({"messages": [("user", "How much is left?")]})
        report(state, await recorded(rt))


def main_sync():
    with sync.open(**OPTIONS) as rt:
        agent = create_agent(model(), tools=langchain.tools(rt))
        state = agent.invoke({"messages": [("user", "How much is left?")]})
        report(state, asyncio.run_coroutine_threadsafe(recorded(rt.target), rt.loop).result())


main_sync() if "sync" in sys.argv else asyncio.run(main())

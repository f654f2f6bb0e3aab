"""An agent loop with the Anthropic SDK: every call governed, every call answered."""

import asyncio

from anthropic import AsyncAnthropic

from agenttool import Runtime, tool


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def stock(article: str, place: str = "north") -> str:
    """Count what is left of an article in a depot. Not for prices."""
    return f"{len(article)} {article} in the {place}"


async def main(question: str) -> str:
    """Let a model use the tools until it has an answer."""
    client = AsyncAnthropic()
    messages = [{"role": "user", "content": question}]
    async with Runtime.open(tools=[stock]) as rt:
        tools = await rt.tools_for("anthropic")
        for _ in range(10):
            reply = await client.messages.create(
                model="claude-sonnet-4-5", max_tokens=1024, messages=messages, **tools.request()
            )
            turn = await tools.answer(reply)
            messages += turn.messages
            if turn.is_final:
                return turn.text
    return "no answer after ten turns"


if __name__ == "__main__":
    print(asyncio.run(main("How much soap and how much salt is left?")))

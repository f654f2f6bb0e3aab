"""An agent loop with the Gemini SDK: every call governed, every call answered."""

import asyncio

from google import genai

from agenttool import Runtime, tool


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def stock(article: str, place: str = "north") -> str:
    """Count what is left of an article in a depot. Not for prices."""
    return f"{len(article)} {article} in the {place}"


async def main(question: str) -> str:
    """Let a model use the tools until it has an answer."""
    client = genai.Client()
    contents = [{"role": "user", "parts": [{"text": question}]}]
    async with Runtime.open(tools=[stock]) as rt:
        tools = await rt.tools_for("gemini")
        for _ in range(10):
            reply = await client.aio.models.generate_content(
                model="gemini-3-pro", contents=contents, config=tools.request()
            )
            turn = await tools.answer(reply)
            contents += turn.messages
            if turn.is_final:
                return turn.text
    return "no answer after ten turns"


if __name__ == "__main__":
    print(asyncio.run(main("How much soap and how much salt is left?")))

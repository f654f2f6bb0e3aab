"""The tools of the gateways. A tool that changes something appends `NAME INVOCATION_ID NUMBER TIME_NS` to a ledger."""

import asyncio
import os
import time

from agenttool import Context, tool

LEDGER = os.O_WRONLY | os.O_APPEND | os.O_CREAT


def write(name, context, number):
    file = os.open("ledger", LEDGER, 0o600)
    os.write(file, f"{name} {context.invocation_id} {number} {time.time_ns()}\n".encode())
    os.close(file)
    return f"wrote {number}"


@tool(namespace="shop")
async def pay(number: int, context: Context) -> str:
    """Change something at once."""
    return write("pay", context, number)


@tool(namespace="shop", concurrency_safe=True)
async def nap(number: int, context: Context) -> str:
    """Change something between two waits."""
    await asyncio.sleep(number % 7 / 50)
    written = write("nap", context, number)
    await asyncio.sleep(number % 5 / 50)
    return written


@tool(namespace="shop", idempotent=True, concurrency_safe=True)
async def put(number: int, context: Context) -> str:
    """Change something that may be repeated."""
    await asyncio.sleep(number % 3 / 50)
    written = write("put", context, number)
    await asyncio.sleep(number % 3 / 50)
    return written


@tool(namespace="shop", read_only=True)
async def look(number: int) -> str:
    """Only read."""
    await asyncio.sleep(number % 4 / 50)
    return f"saw {number}"


@tool(namespace="shop", read_only=True)
async def report(number: int) -> str:
    """Return an output that is stored apart."""
    await asyncio.sleep(0.01)
    return f"{number} " * 20_000


@tool(namespace="shop")
async def send(number: int, context: Context) -> str:
    """Change something after an approval."""
    await asyncio.sleep(number % 3 / 50)
    return write("send", context, number)


@tool(namespace="shop")
async def mark(number: int, context: Context) -> str:
    """Change something within another call."""
    await asyncio.sleep(number % 3 / 100)
    return write("mark", context, number)


@tool(namespace="shop", idempotent=True)
async def twice(number: int, context: Context) -> str:
    """Make two nested calls; it may be repeated."""
    first = await context.call("shop.mark", {"number": number})
    second = await context.call("shop.mark", {"number": -number})
    return f"{first.status} {second.status}"


@tool(namespace="shop")
async def errand(number: int, context: Context) -> str:
    """Make two nested calls; it is not declared repeatable."""
    first = await context.call("shop.mark", {"number": number})
    await asyncio.sleep(0.02)
    second = await context.call("shop.mark", {"number": -number})
    return f"{first.status} {second.status}"


@tool(namespace="shop", idempotent=True)
async def courier(number: int, context: Context) -> str:
    """Make a nested call that needs an approval."""
    sent = await context.call("shop.send", {"number": number})
    return str(sent.status)

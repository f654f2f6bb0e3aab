"""A runtime on a file as a program: `python -m bench.rap.runtime_process URL FILE`.

Each line of input is a request: the number of calls to `start`, of bare requests to `post`, or a call to `answer`.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from agenttool import RapServer, Runtime
from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy
from agenttool.records import InvocationId, InvocationStatus, JsonObject, ToolSurface
from bench.rap.child_process import reply, resident
from bench.rap.round_trip_client import ALL

AT_ONCE = 512
"""Number of concurrent calls, which share commits."""

_BODY = json.dumps({"as long as": "x" * 380}).encode()


async def many(count: int, work: Callable[[], Awaitable[object]]) -> float:
    """Run something `count` times, `AT_ONCE` at a time; return the seconds."""
    left = iter(range(count))

    async def some() -> None:
        for _ in left:
            await work()

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return time.perf_counter() - began


def has_read() -> int:
    """Return the bytes that this process has read from files, cached or not."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


async def start(rt: Runtime, surface: ToolSurface) -> None:
    """Start a call, and raise if it does not wait."""
    call = await (await rt.start("work", {"number": 1}, surface=surface)).idle()
    if call.status is not InvocationStatus.RUNNING:
        result = await rt.journal.result(call.id)
        raise RuntimeError(f"a call does not wait: {None if result is None else result.error}")


async def answer(rt: Runtime, courier: HttpClient, call: JsonObject) -> JsonObject:
    """Post the result of one call to its callback URL, and wait until the call has ended."""
    message = {"type": "tool_result", "group_id": call["group_id"], "id": call["id"], "text": "done"}
    read, began = has_read(), time.perf_counter()
    reply = await courier.post(str(call["callback_url"]), json.dumps(message).encode())
    taken = {"seconds": time.perf_counter() - began, "read": has_read() - read}
    result = await rt.calls.get(InvocationId(str(call["id"]))).result(within_s=60)
    if not reply.is_accepted or result is None or result.error is not None:
        raise RuntimeError(f"the answer was not taken: {reply}")
    return {**taken, "ended": time.perf_counter() - began}


async def main() -> None:
    """Open the runtime, print its memory, and serve requests."""
    url, file = sys.argv[1:]
    courier = HttpClient(SsrfPolicy.parse(["127.0.0.1"]))
    source = RapServer(name="far", url=url, allow=("127.0.0.0/8",))
    async with Runtime.open(store=f"sqlite:{file}", sources=[source], rules=ALL) as rt:
        surface = await rt.surface()
        reply(resident())
        while line := await asyncio.to_thread(sys.stdin.readline):
            request = cast("JsonObject", json.loads(line))
            match request:
                case {"start": int(count)}:
                    took = await many(count, lambda: start(rt, surface))
                    reply({"seconds": took, "resident": resident()})
                case {"post": int(count)}:
                    reply({"seconds": await many(count, lambda: courier.post(f"{url}/invoke", _BODY))})
                case {"answer": dict(call)}:
                    reply(await answer(rt, courier, call))
                case _:
                    raise ValueError(f"unknown request: {request!r}")


if __name__ == "__main__":
    asyncio.run(main())

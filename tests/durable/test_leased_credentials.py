"""A nested call that is resumed after a crash masks the credential that its caller passed to it."""

import asyncio
import signal
import subprocess
import sys

import pytest

from agenttool import Context, Runtime, tool
from agenttool.codec import write

TOKEN = "ghp_0123456789abcdef"  # noqa: S105 -- not a real one
BOUND_S = 60

ran: list[str] = []


@tool(credentials=["github"], idempotent=True, approval_required=False, read_only=True)
async def outer(ctx: Context) -> str:
    result = await ctx.call("echo", {"said": ctx.credentials["github"].value})
    return result.content[0].text


@tool(approval_required=True)
async def echo(said: str) -> str:
    ran.append(said)
    return said


def opened(folder):
    store = f"sqlite:{folder}/calls.db"
    return Runtime.open(store=store, tools=[outer, echo], approve="wait", lease_s=1.0, credentials={"github": TOKEN})


async def question(rt):
    async with asyncio.timeout(BOUND_S):
        while not (asked := await rt.approvals.list()):
            await asyncio.sleep(0.01)
    return asked[0]


async def dying(folder):
    async with opened(folder) as rt:
        started = await (await rt.start("outer", {})).idle()
        await question(rt)
        print(started.id, flush=True)
        signal.raise_signal(signal.SIGKILL)


@pytest.fixture
def left_open(tmp_path):
    died = subprocess.run([sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    return died.stdout.strip()


async def test_a_nested_call_that_is_resumed_masks_the_credential_of_its_caller(tmp_path, left_open):
    async with opened(tmp_path) as rt:
        await rt.approvals.decide((await question(rt)).approval_id, "allow")
        result = await rt.calls.get(left_open).result(within_s=BOUND_S)
        records = [write(record).decode() async for record in rt.journal.export()]
    assert result.content[0].text == "[redacted]"
    assert ran == [TOKEN]
    assert TOKEN not in "\n".join(records)


if __name__ == "__main__":
    asyncio.run(dying(sys.argv[1]))

"""A disk that fails under a runtime, and is mended: `failing.py (io|full) FOLDER`. Prints what became of each call as JSON.

`io`: the process may not let files grow (RLIMIT_FSIZE), so that the kernel refuses writes and SQLite sees an I/O error.
`full`: the folder is a small file system that another file fills up, so that the kernel says ENOSPC; the test that runs this
mounts it.
"""

import asyncio
import json
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

import living

from agenttool import StoreError, tool
from agenttool.stores.sqlite import group_commit

BUSY_TIMEOUT_S = 30


class Io:
    """Files may not grow, nor be written beyond their first byte."""

    def __init__(self, folder):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def breaks(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    def mends(self):
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Full:
    """There is no room left."""

    def __init__(self, folder):
        self.filler = Path(folder) / "filler"

    def breaks(self):
        with self.filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def mends(self):
        self.filler.unlink()


def breaking(disk):
    @tool
    async def break_disk(number: int) -> int:
        """Do something, after which the disk fails."""
        disk.breaks()
        return number

    return break_disk


async def settled(log):
    """Write the backlog, as the runtime does every other second; a commit begun on the broken disk may still fail."""
    async with asyncio.timeout(BUSY_TIMEOUT_S):
        while True:
            with suppress(StoreError):
                await log.settle()
                return
            await asyncio.sleep(0.05)


async def main(mode, folder):
    reported, disk = {}, {"io": Io, "full": Full}[mode](folder)
    async with living.open_runtime(folder, tools=[*living.tools_of(folder), breaking(disk)]) as rt:
        surface = await rt.surface()

        async def call(name, number, what):
            async with asyncio.timeout(BUSY_TIMEOUT_S):
                result = await rt.call(name, {"number": number}, surface=surface)
            error = result.error
            reported[what] = None if error is None else [error.error_code, error.retry.safe]
            return result

        await call("pay", 1, "whole disk")
        broken = await call("break_disk", 2, "breaks while it runs")
        reported["given to who looks"] = [
            await rt.journal.result(broken.invocation_id),
            await rt.calls.get(broken.invocation_id).result(within_s=0.1),
            *[
                each.result_id
                async for each in rt.journal.export()
                if getattr(each, "invocation_id", "") == broken.invocation_id and type(each).__name__ == "ToolResult"
            ],
        ]
        await call("pay", 3, "effect on a broken disk")
        reading = await call("look", 4, "reading on a broken disk")
        await call("send", 5, "asking on a broken disk")
        group_commit.BACKLOG = len(rt._core.journal.log.group.batch.facts) + 20
        many = await asyncio.gather(*(call("look", number, "behind a backlog") for number in range(100)))
        disk.mends()
        await settled(rt._core.journal.log)
        await call("pay", 7, "effect on a mended disk")
        reported["broken is stored as it was returned"] = await rt.journal.result(broken.invocation_id) == broken
        retained = [(each, await rt.journal.result(each.invocation_id)) for each in (reading, *many)]
        reported["stored otherwise than returned"] = sum(stored not in (None, each) for each, stored in retained)
        reported["returned as stored"] = sum(each.error is None for each in many)
        reported["flaws"] = [str(flaw) for flaw in rt._core.journal.log.verify()]
    reported["ledger"] = [number for _, _, number in living.ledger_of(folder)]
    print(json.dumps(reported))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

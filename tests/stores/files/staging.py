"""A process that keeps bytes as they come, and is killed before the last: `staging.py FOLDER`. It says when some are there."""

import asyncio
import sys
import time
from pathlib import Path

from agenttool.stores.files.payloads import ObjectPayloads

PIECE = b"x" * (6 << 20)


def wait_for_bytes(folder):
    while not any(each.stat().st_size for each in folder.glob("incoming/*")):
        time.sleep(0.01)


async def pieces(folder):
    yield PIECE
    yield PIECE
    await asyncio.to_thread(wait_for_bytes, folder)
    print("some are there", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    yield b"the last"


async def main(folder):
    digest, _ = await ObjectPayloads.open(folder).put_stream(pieces(folder))
    print(digest, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

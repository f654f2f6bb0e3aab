"""A RAP server in its own process: `providing.py FOLDER PORT`. Each run of its tool is a line in `ledger`."""

import asyncio
import os
import random
import sys
from pathlib import Path

import uvicorn

from agenttool.rap import Call, Provider, outbox

outbox.FIRST_DELAY_S, outbox.LONGEST_DELAY_S = 0.01, 0.1


def provider_of(folder):
    provider = Provider("far", store=Path(folder) / "far.rap.db", allow=["127.0.0.0/8"])

    @provider.tool
    async def work(number: int, call: Call) -> str:
        """Work for a moment."""
        await asyncio.sleep(random.uniform(0, 0.05))
        file = os.open(Path(folder) / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{call.id} {number}\n".encode())
        os.fsync(file)
        os.close(file)
        return f"did {number}"

    return provider


if __name__ == "__main__":
    uvicorn.run(provider_of(sys.argv[1]).app, port=int(sys.argv[2]), log_level="warning")

"""A runtime on a store with very many open questions: `parking.py FOLDER`. Prints how much memory it took as JSON.

The store holds one question already; here it is copied, under other ids, until there are as many as wanted.
"""

import asyncio
import json
import resource
import sqlite3
import sys
from contextlib import closing

import living

COUNT = 100_000


def fill(folder):
    with closing(sqlite3.connect(f"{folder}/state.db")) as file, file:
        row = file.execute("SELECT invocation_id, kind, body, approval_id, expires_at_ns, owner FROM open_calls")
        call, kind, body, approval_id, expires_at_ns, owner = row.fetchone()
        unique = call.partition("_")[2]
        for number in range(COUNT - 1):
            other = f"{number:032x}"
            file.execute(
                "INSERT INTO open_calls (invocation_id, kind, body, approval_id, expires_at_ns, due_at_ns, owner)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    f"inv_{other}",
                    kind,
                    body.replace(unique.encode(), other.encode()),
                    approval_id.replace(unique, other),
                    expires_at_ns,
                    expires_at_ns,
                    owner,
                ),
            )
        (size,) = file.execute("SELECT sum(length(body)) FROM open_calls").fetchone()
    return approval_id, size


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(folder):
    approval_id, size = fill(folder)
    before = peak()
    async with living.open_runtime(folder) as rt:
        first = await rt.approvals.list(limit=10)
        await rt.calls.recover()
        await rt.approvals.decide(approval_id, "allow")
        await rt.calls.recover()
        while not living.ledger_of(folder):
            await asyncio.sleep(0.01)
    reported = {"size": size, "grown": peak() - before, "listed": len(first)}
    print(json.dumps({**reported, "effects": len(living.ledger_of(folder))}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""One of several processes that want the same calls and answer the same questions: `claiming.py FOLDER OWNER`."""

import asyncio
import json
import sys
from pathlib import Path

from agenttool.journal.steps import STEPS
from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.world import Moment
from agenttool.stores.sqlite.store import SqliteStore

NOW, LATER = 1000, 2000


async def claim(calls, *, now, limit):
    """Claim some of the calls that are due; none only if no call is due any more."""
    while due := await calls.due(now=now, limit=limit):
        claimed = [await calls.claim_one(each.invocation_id, now=now, if_due=True) for each in due]
        if any(claimed):
            return [each for each in claimed if each is not None]
    return []


async def main(folder, owner):
    store = SqliteStore.open(Path(folder) / "state.db", steps=STEPS, owner=owner)
    calls = store.open_calls
    await calls.renew_lease(Moment(LATER))
    questions = [call.approval_id for call in await calls.awaiting_answer(limit=1000)]
    print("ready", flush=True)
    sys.stdin.readline()  # all processes begin at once
    answered = [
        each for each in questions if await calls.answer(each, owner.encode(), now_ns=NOW) is AnswerStatus.ACCEPTED
    ]
    taken = [call.invocation_id for call in await claim(calls, now=Moment(NOW), limit=3)]
    print("began", flush=True)
    sys.stdin.readline()  # no process takes more before each has some
    while found := await claim(calls, now=Moment(NOW), limit=3):
        taken += [call.invocation_id for call in found]
        await asyncio.sleep(0.002)  # let the others have a go
    print(json.dumps({"answered": answered, "taken": taken}), flush=True)
    sys.stdin.readline()  # alive until all are done
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))

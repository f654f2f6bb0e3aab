"""Questions to users that a tool awaits; questions and answers survive a restart."""

import asyncio
import hashlib
import time

from agenttool.adapters.rap.wire import Selection, read
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.rap import tables
from agenttool.rap.outbox import Outbox
from agenttool.rap.store import ProviderStore
from agenttool.rap.tool_api import Declined
from agenttool.records import JsonObject

_NOT_A_CHOICE = "the selection is none of the choices; nothing was done"
_REJECTED: JsonObject = {"fault": "the runtime rejected the question, so the user was not asked; nothing was done"}


class Questions:
    """Asks questions and waits for their answers. Each open question is stored."""

    def __init__(self, store: ProviderStore, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox
        self._waiting: dict[tuple[int, int], asyncio.Future[str]] = {}

    async def ask(self, call: int, question: tables.NewQuestion, timeout_message: str) -> JsonObject:
        """Ask a question, unless it was asked before, and return its answer; the call then counts as started.

        Raises:
            ToolFailure: there is no answer, or it is a fault.
        """
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[call, question.number] = waiter  # first, because the answer may come at once
        try:
            state = await self._store.run(tables.ask_question, call, question)
            answer = state.answer
            if answer is None:
                self._outbox.send(await self._store.run(tables.next_message, call))
                async with asyncio.timeout((state.expires_at - time.time_ns()) / 1e9):
                    answer = await waiter
        except TimeoutError:
            raise Declined(f"{timeout_message} in time; call again when the user is present") from None
        finally:
            del self._waiting[call, question.number]
        if state.is_last and not await self._store.run(tables.mark_started, call):
            raise Declined("the call was canceled")
        given = parse_object(answer)
        if "fault" in given:
            raise Declined(str(given["fault"]))
        return given

    async def find(self, token: str) -> tables.OpenQuestion | None:
        """Return the open question of a token."""
        return await self._store.run(tables.find_open_question, digest_of_token(token), time.time_ns())

    async def answer(self, question: tables.OpenQuestion, answer: JsonObject) -> None:
        """Store an answer and resume the call; only the first answer counts."""
        encoded = json_bytes(answer).decode()
        found = await self._store.run(tables.store_answer, question.call, encoded, question.number)
        self._resume(question.call, found, encoded)

    async def reject_all(self, call: int) -> None:
        """Answer the open questions of a call with a fault, because its runtime rejected the question."""
        encoded = json_bytes(_REJECTED).decode()
        self._resume(call, await self._store.run_until_stored(tables.store_answer, call, encoded), encoded)

    def _resume(self, call: int, questions: list[int], answer: str) -> None:
        for number in questions:
            waiter = self._waiting.get((call, number))
            if waiter is not None and not waiter.done():
                waiter.set_result(answer)

    async def select(self, token: str, body: bytes) -> bool:
        """Process what a runtime posted to a `response_url`; False if it is not a selection.

        A selection that is none of the choices ends the call with an error. A late selection changes nothing.
        """
        question = await self.find(token)
        if question is None:
            return True
        try:
            selection = read(body, Selection)
        except RecordError as error:
            if error.pointer != "/selected":
                return False
            selection = None
        if selection is not None and selection.id != question.id:
            return False
        if selection is not None and selection.selected < question.choices:
            await self.answer(question, {"selected": selection.selected})
        else:
            await self.answer(question, {"fault": _NOT_A_CHOICE})
        return True


def digest_of_token(token: str) -> str:
    """Return the stored form of a token, which identifies it and cannot be used in its place."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()

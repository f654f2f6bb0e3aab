"""Questions to users that a tool awaits; questions and answers survive a restart."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Sequence

from agenttool.adapters.rap.wire import OAuth, Selection, UserChoice, read, write
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.rap import tables
from agenttool.rap.outbox import Outbox
from agenttool.rap.store import ProviderStore
from agenttool.rap.tables import NewQuestion, OpenQuestion, QuestionState
from agenttool.rap.tool_api import Call, Declined
from agenttool.records import JsonObject

CHOICES_PATH = "/choices/"
_NOT_A_CHOICE = "the selection is none of the choices; nothing was done"
_REJECTED: JsonObject = {"fault": "the runtime rejected the question, so the user was not asked; nothing was done"}


class Questions:
    """Asks questions and waits for their answers. Each open question is stored."""

    def __init__(self, store: ProviderStore, outbox: Outbox) -> None:
        """Take the store and the outbox."""
        self._store = store
        self._outbox = outbox
        self._waiting: dict[tuple[int, int], asyncio.Future[str]] = {}

    async def choose(self, call: Call, prompt: str, choices: Sequence[str], default: int, limit_s: float) -> int:
        """Ask the user to choose, wait, and return the chosen index.

        Raises:
            ToolFailure: there was no answer in time, or it was none of the choices.
        """
        token = secrets.token_urlsafe(32)
        message = UserChoice(
            group_id=call.thread_id,
            id=call.id,
            call_id=call.stored.call_id,
            prompt=prompt,
            choices=tuple(choices),
            default=default,
            response_url=f"{call.stored.base_url}{CHOICES_PATH}{token}",
        )
        question = _question(call, token, write(message), limit_s, choices=len(choices))
        answer = await self._ask(call, question, "the user did not choose")
        return _index(answer)

    async def authorize(self, call: Call, auth_url: str, state: str, secret: str, limit_s: float) -> None:
        """Send the user to an authorization page, and wait until it is granted.

        Raises:
            ToolFailure: it was not granted.
        """
        message = OAuth(group_id=call.thread_id, id=call.id, call_id=call.stored.call_id, auth_url=auth_url)
        question = _question(call, state, write(message), limit_s, secret=secret)
        await self._ask(call, question, "the user did not grant the authorization")

    async def _ask(self, call: Call, question: NewQuestion, timeout_message: str) -> JsonObject:
        """Ask a question, unless it was asked before, and return its answer; the call then counts as started.

        Raises:
            ToolFailure: there is no answer, or it is a fault.
        """
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[call.number, question.index] = waiter  # first, because the answer may come at once
        try:
            state = await self._store.run(tables.ask_question, call.number, question)
            answer = state.answer or await self._wait(call, state, waiter)
        except TimeoutError:
            raise Declined(f"{timeout_message} in time; call again when the user is present") from None
        finally:
            del self._waiting[call.number, question.index]
        if state.is_last and not await self._store.run(tables.mark_started, call.number):
            raise Declined("the call was canceled")
        given = parse_object(answer)
        if "fault" in given:
            raise Declined(str(given["fault"]))
        return given

    async def _wait(self, call: Call, state: QuestionState, waiter: "asyncio.Future[str]") -> str:
        self._outbox.send(await self._store.run(tables.next_message, call.number))
        async with asyncio.timeout((state.expires_at - time.time_ns()) / 1e9):
            return await waiter

    async def find(self, token: str) -> OpenQuestion | None:
        """Return the open question of a token."""
        return await self._store.run(tables.find_open_question, digest_of_token(token), time.time_ns())

    async def answer(self, question: OpenQuestion, answer: JsonObject) -> None:
        """Store an answer and resume the call; only the first answer counts."""
        encoded = json_bytes(answer).decode()
        if await self._store.run(tables.store_answer, question.call, question.index, encoded):
            self._resume(question.call, question.index, encoded)

    async def reject_all(self, call: int) -> None:
        """Answer the open questions of a call with a fault, because its runtime rejected the question."""
        encoded = json_bytes(_REJECTED).decode()
        for index in await self._store.run_until_stored(tables.answer_all_questions, call, encoded):
            self._resume(call, index, encoded)

    def _resume(self, call: int, index: int, answer: str) -> None:
        waiter = self._waiting.get((call, index))
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


def _question(
    call: Call, token: str, body: bytes, limit_s: float, *, choices: int = 0, secret: str | None = None
) -> NewQuestion:
    index = call.questions_asked
    call.questions_asked += 1
    return NewQuestion(
        index=index,
        token=digest_of_token(token),
        secret=secret,
        choices=choices,
        expires_at=time.time_ns() + int(limit_s * 1e9),
        body=body,
    )


def _index(answer: JsonObject) -> int:
    selected = answer.get("selected")
    if not isinstance(selected, int):
        raise Declined(_NOT_A_CHOICE)
    return selected

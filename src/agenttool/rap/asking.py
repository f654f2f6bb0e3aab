"""Questions to users, awaited inside a tool: they outlive the process, and so do their answers."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Sequence

from agenttool.adapters.rap.wire import OAuth, Selection, UserChoice, read, write
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.rap.call import Call
from agenttool.rap.keeping import calls, messages, questions
from agenttool.rap.keeping.questions import Asked, NewQuestion, Open
from agenttool.rap.keeping.store import Store
from agenttool.rap.outbox import Outbox
from agenttool.rap.outcome import Declined
from agenttool.records import JsonObject

CHOICES_PATH = "/choices/"
_NOT_TAKEN: JsonObject = {"fault": "the runtime did not take the question, so nobody was asked; nothing was done"}


class Asking:
    """Who waits for which answer. Whatever waits here waits on the disk, too."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        """Take where questions are kept and how they go out."""
        self._store = store
        self._outbox = outbox
        self._waiting: dict[tuple[int, int], asyncio.Future[str]] = {}

    async def choose(self, call: Call, prompt: str, choices: Sequence[str], default: int, limit_s: float) -> int:
        """Ask, wait, and give the index that was picked.

        Raises:
            ToolFailure: nobody answered in time, or the answer was none of the choices.
        """
        token = secrets.token_urlsafe(32)
        message = UserChoice(
            group_id=call.thread_id,
            id=call.id,
            call_id=call.kept.call_id,
            prompt=prompt,
            choices=tuple(choices),
            default=default,
            response_url=f"{call.kept.base_url}{CHOICES_PATH}{token}",
        )
        question = _question(call, token, write(message), limit_s, choices=len(choices))
        answer = await self.ask(call, question, "nobody chose")
        return _index(answer)

    async def authorize(self, call: Call, auth_url: str, state: str, secret: str, limit_s: float) -> None:
        """Send the user to an authorization page, and wait until it was granted.

        Raises:
            ToolFailure: it was not.
        """
        message = OAuth(group_id=call.thread_id, id=call.id, call_id=call.kept.call_id, auth_url=auth_url)
        question = _question(call, state, write(message), limit_s, secret=secret)
        await self.ask(call, question, "nobody granted the authorization")

    async def ask(self, call: Call, question: NewQuestion, nobody: str) -> JsonObject:
        """Ask a question of a call, unless it was asked before, and give its answer.

        Once it returns, the call counts as one that may have acted.

        Raises:
            ToolFailure: there is no answer, or it is a fault.
        """
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[call.number, question.place] = waiter  # first, because the answer may come at once
        try:
            asked = await self._store.perform(questions.ask, call.number, question)
            answer = asked.answer or await self._wait(call, asked, waiter)
        except TimeoutError:
            raise Declined(f"{nobody} in time; call again when the user is there") from None
        finally:
            del self._waiting[call.number, question.place]
        if asked.is_last and not await self._store.perform(calls.begin, call.number):
            raise Declined("the call was canceled")
        given = parse_object(answer)
        if "fault" in given:
            raise Declined(str(given["fault"]))
        return given

    async def _wait(self, call: Call, asked: Asked, waiter: "asyncio.Future[str]") -> str:
        self._outbox.send(await self._store.perform(messages.next_of, call.number))
        async with asyncio.timeout((asked.expires_at - time.time_ns()) / 1e9):
            return await waiter

    async def find(self, token: str) -> Open | None:
        """Find the open question that a token belongs to."""
        return await self._store.perform(questions.find_open, digest_of_token(token), time.time_ns())

    async def answer(self, question: Open, given: JsonObject) -> None:
        """Take an answer; the first one stands."""
        spelled = json_bytes(given).decode()
        if await self._store.perform(questions.answer, question.call, question.place, spelled):
            self._tell(question.call, question.place, spelled)

    async def give_up(self, call: int) -> None:
        """End the wait for answers that cannot come: the runtime of a call has refused to ask."""
        spelled = json_bytes(_NOT_TAKEN).decode()
        for place in await self._store.insist(questions.answer_all, call, spelled):
            self._tell(call, place, spelled)

    def _tell(self, call: int, place: int, answer: str) -> None:
        waiter = self._waiting.get((call, place))
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    async def select(self, token: str, body: bytes) -> bool:
        """Take what a runtime posted to a `response_url`; false if it is no selection, and the question stays open.

        A selection that is none of the choices ends the call with an error. One that comes late changes nothing.
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
        fits = selection is not None and selection.selected < question.choices
        fault: JsonObject = {"fault": "the selection is none of the choices; nothing was done"}
        await self.answer(question, {"selected": selection.selected} if selection is not None and fits else fault)
        return True


def digest_of_token(token: str) -> str:
    """Give what is kept of a token: enough to know it again, not to use it."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _question(
    call: Call, token: str, body: bytes, limit_s: float, *, choices: int = 0, secret: str | None = None
) -> NewQuestion:
    place = call.asked
    call.asked += 1
    return NewQuestion(
        place=place,
        token=digest_of_token(token),
        secret=secret,
        choices=choices,
        expires_at=time.time_ns() + int(limit_s * 1e9),
        body=body,
    )


def _index(answer: JsonObject) -> int:
    selected = answer.get("selected")
    if not isinstance(selected, int):
        raise Declined("the selection is none of the choices; nothing was done")
    return selected

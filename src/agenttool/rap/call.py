"""The running `RapCall`, by which a tool asks its user, shows views and reports progress.

Questions and answers survive a restart.
"""

import asyncio
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

from agenttool.adapters.rap import wire
from agenttool.codec import json_bytes, parse_object, write_own
from agenttool.errors import RecordError
from agenttool.rap import tables
from agenttool.rap.oauth import OAUTH_PATH, GrantStore, PendingAuthorization
from agenttool.rap.outbox import Outbox
from agenttool.rap.store import ProviderStore
from agenttool.rap.tool_api import Declined
from agenttool.records import JsonObject

CHOICES_PATH = "/choices/"
DAY_S = 86_400.0
_NOT_A_CHOICE = "the selection is none of the choices; nothing was done"
_REJECTED: JsonObject = {"fault": "the runtime rejected the question, so the user was not asked; nothing was done"}


class Questions:
    """Asks questions and waits for their answers. Each open question is stored.

    Attributes:
        outbox: delivers the questions.
    """

    def __init__(self, store: ProviderStore, outbox: Outbox) -> None:
        self.store = store
        self.outbox = outbox
        self._waiting: dict[tuple[int, int], asyncio.Future[str]] = {}

    async def ask(self, call: int, question: tables.NewQuestion, timeout_message: str) -> JsonObject:
        """Ask a question, unless it was asked before, and return its answer; the call then counts as started.

        Raises:
            ToolFailure: there is no answer, or it is a fault.
        """
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[call, question.number] = waiter  # first, because the answer may come at once
        try:
            state = await self.store.run(tables.ask_question, call, question)
            answer = state.answer
            if answer is None:
                self.outbox.send(await self.store.run(tables.next_message, call))
                async with asyncio.timeout((state.expires_at - time.time_ns()) / 1e9):
                    answer = await waiter
        except TimeoutError:
            raise Declined(f"{timeout_message} in time; call again when the user is present") from None
        finally:
            del self._waiting[call, question.number]
        if state.is_last and not await self.store.run(tables.mark_started, call):
            raise Declined("the call was canceled")
        given = parse_object(answer)
        if "fault" in given:
            raise Declined(str(given["fault"]))
        return given

    async def find(self, token: str) -> tables.OpenQuestion | None:
        """Return the open question of a token."""
        return await self.store.run(tables.find_open_question, digest_of_token(token), time.time_ns())

    async def answer(self, question: tables.OpenQuestion, answer: JsonObject) -> None:
        """Store an answer and resume the call; only the first answer counts."""
        encoded = json_bytes(answer).decode()
        found = await self.store.run(tables.store_answer, question.call, encoded, question.number)
        self._resume(question.call, found, encoded)

    async def reject_all(self, call: int) -> None:
        """Answer the open questions of a call with a fault, because its runtime rejected the question."""
        encoded = json_bytes(_REJECTED).decode()
        self._resume(call, await self.store.run_until_stored(tables.store_answer, call, encoded), encoded)

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
            selection = wire.read(body, wire.Selection)
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


class RapCall:
    """The running call. A parameter of this class is filled by the provider and is in no schema.

    Attributes:
        stored: the call in the provider's store.
        thread_id: the conversation that the call belongs to.
        id: of the call within its thread; `idempotency_key` is unique everywhere.
        ancestors: the threads above, root first and parent last.
        user_id: the user, if the runtime names one; as trustworthy as the runtime.
        bookmark: the bookmark of this subscription's last event; None at its start.
        is_canceled: whether the runtime has canceled the call.
    """

    def __init__(
        self,
        stored: tables.StoredCall,
        invocation: wire.Invocation,
        questions: Questions,
        grants: GrantStore,
        pause: Callable[[int], AbstractAsyncContextManager[None]],
        requires_auth: str | None = None,
    ) -> None:
        """Take the stored call, what it needs of the provider that runs it, and the OAuth client of its tool.

        `pause` releases the permit of a call while it waits for its user.
        """
        self.stored = stored
        self._questions = questions
        self._grants = grants
        self._pause = pause
        self._requires_auth = requires_auth
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._questions_asked = 0
        self.thread_id = stored.thread
        self.id = stored.id
        self.ancestors = invocation.thread_ancestors or ()
        self.user_id = invocation.user_id
        self.bookmark: str | None = None
        self.is_canceled = False

    @property
    def number(self) -> int:
        """The number of the call in the provider's store."""
        return self.stored.number

    @property
    def idempotency_key(self) -> str:
        """A unique key of this call; pass it to systems that act once per key."""
        return self.stored.key

    async def store_once(self, value: str) -> str:
        """Store a value until the call ends, and return it; after a restart, return the value stored before."""
        return await self._questions.store.run(tables.store_value_once, self.number, value)

    async def choose(
        self, prompt: str, choices: Sequence[str], *, default: int | str = -1, limit_s: float = DAY_S
    ) -> str:
        """Ask the user, and return the chosen label; ask before you act.

        After a restart the function runs again up to its open question, with the answers so far. The default, which is
        the last label unless you set another, applies if the user dismisses the question, so it should be harmless.

        Raises:
            ToolFailure: there was no answer within the limit, or it was none of the choices.
            ValueError: a label is empty, unprintable or a duplicate, or the question is longer than a runtime accepts.
        """
        labels = list(choices)
        if (
            not labels
            or len(set(labels)) < len(labels)
            or not all(each.strip() and each.isprintable() for each in labels)
        ):
            raise ValueError("each label must be printable, not empty, and different from the others; correct them")
        if len(labels) > wire.MAX_CHOICES or any(len(each) > wire.MAX_PROMPT_CHARS for each in (prompt, *labels)):
            raise ValueError(
                f"use at most {wire.MAX_CHOICES} labels and {wire.MAX_PROMPT_CHARS} characters each; ask for less"
            )
        index = labels.index(default) if isinstance(default, str) else default % len(labels)
        token = secrets.token_urlsafe(32)
        message = wire.UserChoice(
            group_id=self.thread_id,
            id=self.id,
            call_id=self.stored.call_id,
            prompt=prompt,
            choices=tuple(labels),
            default=index,
            response_url=f"{self.stored.base_url}{CHOICES_PATH}{token}",
        )
        question = tables.NewQuestion(
            self._next_question(), digest_of_token(token), None, len(labels), limit_s, wire.write(message)
        )
        answer = await self._ask(question, "the user did not choose")
        return labels[cast("int", answer["selected"])]

    async def authorize(self, client: str | None = None, *, limit_s: float = 600.0) -> str:
        """Return an access token of the user, and ask the user to grant it first if there is none.

        Args:
            client: the name of an OAuth client of the provider; by default the one that the tool requires.
            limit_s: how long the user may take.

        Raises:
            ToolFailure: it was not granted within the limit, it was refused, or the call names no user.
        """
        grants, index = self._grants, self._next_question()
        chosen = grants.clients.get(client or self._requires_auth or "")
        if chosen is None:
            raise Declined("this tool needs an authorization that its server does not know; contact its operator")
        if self.user_id is None:
            raise Declined("this tool acts on behalf of a user, and the call names none")
        owner = json_bytes([self.stored.caller, self.user_id]).decode()  # a user id is valid for one caller only
        known = await self._questions.store.run(tables.find_question, self.number, index)
        token = await grants.token(chosen, owner)
        if known is None and token is not None:
            return token
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        redirect_uri = f"{self.stored.base_url}{OAUTH_PATH}{chosen.name}"
        pending = PendingAuthorization(chosen.name, owner, verifier, redirect_uri)
        page = chosen.page_for(state=state, verifier=verifier, redirect_uri=redirect_uri)
        message = wire.OAuth(group_id=self.thread_id, id=self.id, call_id=self.stored.call_id, auth_url=page)
        secret = write_own(pending).decode()
        question = tables.NewQuestion(index, digest_of_token(state), secret, 0, limit_s, wire.write(message))
        await self._ask(question, "the user did not grant the authorization")
        token = await grants.token(chosen, owner)
        if token is None:
            raise Declined("the authorization is no longer valid; call again")
        return token

    async def view(self, view_type: str, content: JsonObject) -> None:
        """Show people something beside the conversation, such as `diff`; an empty object clears it.

        Raises:
            RecordError: the content is not JSON.
        """
        body = wire.write(wire.ViewUpdate(group_id=self.thread_id, view_type=view_type, content=content))
        self._questions.outbox.send(await self._questions.store.run(tables.append_message, self.number, "view", body))

    def report(self, message: str | None = None, *, percent: float | None = None) -> None:
        """Report progress from any thread; a report is dropped if a newer one replaces it."""
        progress: JsonObject = {"message": message, "percent": percent, "tool_call_id": self.id}
        if threading.get_ident() == self._loop_thread:
            self._questions.outbox.report(self.stored, progress)
        else:
            self._loop.call_soon_threadsafe(self._questions.outbox.report, self.stored, progress)

    def _next_question(self) -> int:
        """Return the index of the next question, which is the same when the function runs again after a restart."""
        self._questions_asked += 1
        return self._questions_asked - 1

    async def _ask(self, question: tables.NewQuestion, timeout_message: str) -> JsonObject:
        async with self._pause(self.number):
            return await self._questions.ask(self.number, question, timeout_message)

"""A provider that runs: its store open, its lanes going, its calls under way."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from agenttool.adapters.rap.connections import Terms
from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.wire import Invocation, Migrate
from agenttool.codec import json_bytes
from agenttool.errors import StoreError
from agenttool.rap.asking import Asking
from agenttool.rap.call import Call
from agenttool.rap.faults import told_of
from agenttool.rap.keeping import calls, messages, once, questions
from agenttool.rap.keeping.calls import NewCall
from agenttool.rap.keeping.messages import Kind, Outgoing
from agenttool.rap.keeping.store import Store
from agenttool.rap.limits import Rates, Room
from agenttool.rap.oauth import OAUTH_PATH, Grants, OAuthClient, Pending
from agenttool.rap.outbox import Outbox
from agenttool.rap.outcome import Declined, Event, error_of, too_large_of
from agenttool.rap.places import Places
from agenttool.rap.runs import Runs
from agenttool.rap.settings import Settings
from agenttool.rap.subscriptions import Subscriptions
from agenttool.rap.tasks import Tasks
from agenttool.rap.views import Views
from agenttool.records import JsonObject

TIDY_EVERY_S = 60.0
_GONE = (404, 410)
_TOO_LARGE, _SMALL = 413, 10_000
"""What has no more bytes than this is too large for nobody, whatever is said of it."""

_NOT_MOVED = "the session could not be moved; it stays here"
_log = logging.getLogger(__name__)


class Live:
    """Takes calls, notices and answers. Made by `opened`, and gone with it."""

    def __init__(self, settings: Settings, store: Store, courier: Courier, tasks: Tasks) -> None:
        """Join the parts."""
        limits = settings.limits
        self.settings = settings
        self._store = store
        self._courier = courier
        self._tasks = tasks
        self._calls = Rates(limits.calls)
        self._refusals = Rates(limits.calls)
        self._notices = Rates(limits.notices)
        self._room = Room(limits)
        self._outbox = Outbox(store, courier, tasks, self._room, credential=settings.presents, limits=limits)
        self._outbox.on_refused = self._note_refusal
        self._asking = Asking(store, self._outbox)
        self._grants = Grants(store, courier, settings.clients, settings.cipher)
        self._views = Views(store, self._outbox, courier, tasks, settings.presents)
        self._subscriptions = Subscriptions(store, self._outbox, limits)
        self._runs = Runs(
            store,
            courier,
            self._outbox,
            self._subscriptions,
            self._views,
            settings.tools,
            room=self._room,
            places=Places(limits.max_running, limits.max_running_per_caller),
            tasks=tasks,
        )

    async def take_up(self) -> None:
        """Go on with what an earlier process left: calls that were accepted, and messages nobody has taken yet."""
        for kept in await self._store.perform(calls.open_calls):
            if kept.state is calls.State.SUBSCRIBED and not self.settings.is_generator(kept.body):
                continue  # its events come from whoever publishes them
            self._runs.start(kept, self)
        self._outbox.send_all(await self._store.perform(messages.all_next))
        self._tasks.start(self._tidy())

    def is_full_for(self, caller: str) -> bool:
        """Tell whether so much is under way that nothing more is accepted of a caller for now."""
        return self._room.is_full_for(caller)

    async def accept(self, call: NewCall, message: Invocation) -> bool:
        """Take on a call: once this returns, it is on the disk, and will end in a result; false if it cannot be."""
        wait = self._calls.wait_of(call.caller)
        if wait:
            return await self.refuse(call, f"too many calls; try again in {wait:.3g} seconds")
        key = call.key
        self._room.enter(key, call.caller)  # until it is kept, or else those that come meanwhile find room, too
        try:
            kept = await self._store.perform(calls.accept, call)
            if kept is not None:
                self._runs.start(kept, self, message)
        finally:
            self._room.leave(key, call.caller)
        return True

    async def refuse(self, call: NewCall, message: str) -> bool:
        """Take on a call that needs no work to be known to fail; false if its caller has sent too many of them."""
        if self._refusals.wait_of(call.caller):
            return False
        self._outbox.send(await self._store.perform(calls.accept_settled, call, error_of(call, message)))
        return True

    async def take_once(self, word: str, until_s: float) -> bool:
        """Tell whether a request has not been taken before, by this process or an earlier one."""
        return await self._store.perform(once.take, word, int(until_s * 1e9))

    async def cancel(self, caller: str, thread: str, call_id: str) -> None:
        """Stop a call or end a subscription, if it is the caller's; nothing tells whether there was one."""
        if not self._notices.wait_of(caller):
            await self._stop_noted(calls.cancel, caller, thread, call_id)

    async def close_thread(self, caller: str, thread: str) -> None:
        """End what a closed thread cannot use any more, and let the author clean up."""
        if self._notices.wait_of(caller):
            return
        await self._stop_noted(calls.close_thread, caller, thread)
        with suppress(StoreError):  # then it is as if the notice got lost
            if not await self._store.perform(calls.is_of_another, caller, thread):
                for clean_up in self.settings.on_close:
                    self._tasks.start(clean_up(thread))

    async def _stop_noted(self, note: Callable[..., list[int]], *names: str) -> None:
        """Stop calls that nobody wants any more; if the disk does not take it, it is as if the notice got lost."""
        try:
            self._stop(await self._store.perform(note, *names))
        except StoreError as error:
            _log.error("a notice could not be heeded: %s", error)

    def _stop(self, numbers: list[int]) -> None:
        for number in numbers:
            self._runs.cancel(number)

    async def migrate(self, caller: str, request: Migrate) -> str | None:
        """Move a session to another host; gives why not, once it is clear, and nothing once everything is there.

        The destination is looked for first, and everything has to be done within the limit.
        """
        if await self._store.perform(calls.is_of_another, caller, request.session_id):
            return _NOT_MOVED
        url = f"{request.destination_url.rstrip('/')}/.well-known/rap-toolset"
        reply = await self._courier.get(url, terms=Terms(caller=caller))
        if not reply.is_accepted:
            return "the destination does not answer as a tool server; start it, and make it reachable"
        try:
            async with asyncio.timeout(self.settings.limits.migrate_s):
                for move in self.settings.on_migrate:
                    await move(request.session_id, request.destination_url)
        except Declined as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 -- the author's code; the session stays where it is
            _log.error("a migration failed: %s", told_of(error))
            return _NOT_MOVED
        return None

    async def select(self, token: str, body: bytes) -> bool:
        """Take a selection; false if it is none."""
        return await self._asking.select(token, body)

    async def grant(self, state: str, code: str | None) -> bool:
        """Take what came back from an authorization page; false if nobody waits for it."""
        question = await self._asking.find(state)
        if question is None or question.secret is None:
            return False
        granted = code is not None and await self._grants.redeem(Pending.of(question.secret), code)
        fault: JsonObject = {"fault": "the authorization was refused or failed; nothing was done"}
        await self._asking.answer(question, {"granted": True} if granted else fault)
        return True

    async def publish(self, topic: str, event: Event) -> int:
        """Send an event to a topic's subscribers."""
        return await self._subscriptions.publish(topic, event)

    async def choose(self, call: Call, prompt: str, choices: Sequence[str], default: int, limit_s: float) -> int:
        """Ask a call's user to choose."""
        async with self._runs.paused(call):
            return await self._asking.choose(call, prompt, choices, default, limit_s)

    async def authorize(self, call: Call, client: str | None, limit_s: float) -> str:
        """Give a token of a call's user."""
        chosen = self._client_for(call, client)
        if call.user_id is None:
            raise Declined("this tool acts on behalf of a user, and the call names none")
        known = await self._store.perform(questions.find, call.number, call.asked)
        holder = _holder(call)
        token = await self._grants.token(chosen, holder)
        if known is None and token is not None:
            call.asked += 1  # the place stays taken, so that the questions after it keep theirs
            return token
        pending = Pending.new(chosen, holder, f"{call.kept.base_url}{OAUTH_PATH}{chosen.name}")
        state = secrets.token_urlsafe(32)
        page = chosen.page_for(state=state, verifier=pending.verifier, redirect_uri=pending.redirect_uri)
        async with self._runs.paused(call):
            await self._asking.authorize(call, page, state, pending.spelled(), limit_s)
        token = await self._grants.token(chosen, holder)
        if token is None:
            raise Declined("the authorization no longer holds; call again")
        return token

    def _client_for(self, call: Call, client: str | None) -> OAuthClient:
        name = client or self.settings.auth_of(call.kept.body)
        chosen = self.settings.clients.get(name or "")
        if chosen is None:
            raise Declined("this tool needs an authorization that its server does not know; tell its operator")
        return chosen

    async def keep_word(self, call: Call, word: str) -> str:
        """Keep a word about a call."""
        return await self._store.perform(calls.keep_word, call.number, word)

    async def view(self, call: Call, view_type: str, content: JsonObject) -> None:
        """Send a view of a call."""
        await self._views.send(call, view_type, content)

    def report(self, call: Call, told: JsonObject) -> None:
        """Send how far a call is."""
        self._views.report(call, told)

    async def _note_refusal(self, message: Outgoing, status: int | None) -> None:
        """End a subscription that its runtime does not know, or no more; nobody answers a question it does not take.

        A result that is too large for its runtime is replaced by an error that says so, or else the call would wait on.
        """
        if message.kind is Kind.RESULT and status == _TOO_LARGE and len(message.body) > _SMALL:
            await self._store.insist(messages.put, message.call, Kind.RESULT, too_large_of(message.body))
        if message.kind is Kind.RESULT or status in _GONE:
            self._tasks.start(self._stop_subscription(message.call))
        elif message.kind is Kind.QUESTION:
            await self._asking.give_up(message.call)

    async def _stop_subscription(self, number: int) -> None:
        await self._subscriptions.cancel(number)
        self._runs.cancel(number)

    async def _tidy(self) -> None:
        while True:
            with suppress(StoreError):  # a disk that fails now may be back next time
                self._stop(await self._subscriptions.expire())
                await self._store.perform(once.forget, time.time_ns())
                await self._store.perform(calls.forget, time.time_ns() - int(self.settings.limits.keep_s * 1e9))
            await asyncio.sleep(TIDY_EVERY_S)


def _holder(call: Call) -> str:
    """Name whose grants a call may use: who a user is, is the word of a caller, and holds for its own calls only."""
    return json_bytes([call.kept.caller, call.user_id]).decode()


@asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[Live]:
    """Open a provider's store, go on with what is in it, and take calls; on leaving, park whatever waits.

    Raises:
        ConfigError: the store cannot be used.
    """
    async with AsyncExitStack() as stack:
        store = Store(settings.store)
        stack.push_async_callback(store.close)
        courier = Courier(settings.reach, shares=settings.limits.shares)
        stack.push_async_callback(courier.close)
        tasks = await stack.enter_async_context(Tasks())
        live = Live(settings, store, courier, tasks)
        await live.take_up()
        yield live

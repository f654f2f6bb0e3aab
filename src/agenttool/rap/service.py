"""The running provider: its open store, its calls, and its deliveries."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from agenttool.adapters.rap.credentials import Signed, origin_of
from agenttool.adapters.rap.wire import Invocation, Migrate
from agenttool.codec import read_own
from agenttool.errors import StoreError
from agenttool.http.client import HttpClient, HttpReply, RequestOptions
from agenttool.http.limiter import ConcurrencyLimiter, Quota, RateLimiter
from agenttool.rap import tables
from agenttool.rap.background import BackgroundTasks, error_location
from agenttool.rap.call import Questions
from agenttool.rap.execution import CallRunner
from agenttool.rap.oauth import GrantStore, PendingAuthorization
from agenttool.rap.outbox import Outbox
from agenttool.rap.settings import ProviderSettings
from agenttool.rap.store import ProviderStore
from agenttool.rap.tool_api import Declined, error_message, too_large_message
from agenttool.records import JsonObject

CLEANUP_INTERVAL_S = 60.0
_GONE = (404, 410)
_TOO_LARGE, _SMALL_BYTES = 413, 10_000
"""A message of at most this size cannot be too large; a 413 for it is an error of the runtime."""

_NOT_MOVED = "the session could not be moved; it stays here"
_log = logging.getLogger(__name__)


class ProviderService:
    """Processes calls, notices and answers while the provider runs. Made by `open_service`.

    Attributes:
        quota: the open calls, in total and of each caller.
        runner: executes the calls.
    """

    def __init__(
        self, settings: ProviderSettings, store: ProviderStore, client: HttpClient, tasks: BackgroundTasks
    ) -> None:
        limits = settings.limits
        self.settings = settings
        self._store = store
        self._client = client
        self._tasks = tasks
        self._call_rates = RateLimiter(limits.calls)
        self._error_rates = RateLimiter(limits.calls)
        self._notice_rates = RateLimiter(limits.notices)
        self.quota = Quota(limits.max_open, limits.max_open_per_caller)
        self._outbox = Outbox(store, tasks, self.quota, limits, post=self._post, on_rejected=self._handle_rejection)
        self.questions = Questions(store, self._outbox)
        self._grants = GrantStore(store, client, settings.clients, settings.cipher)
        self.runner = CallRunner(
            store=store,
            client=client,
            outbox=self._outbox,
            tools=settings.tools,
            questions=self.questions,
            grants=self._grants,
            quota=self.quota,
            limiter=ConcurrencyLimiter(limits.running_limits),
            tasks=tasks,
        )

    async def recover(self) -> None:
        """Continue the work of an earlier process: unsettled calls and undelivered messages."""
        for stored in await self._store.run(tables.unsettled_calls):
            self.runner.start(stored)
        for message in await self._store.run(tables.next_messages):
            self._outbox.send(message)
        self._tasks.start(self._clean_up())

    async def accept(self, call: tables.NewCall, invocation: Invocation) -> bool:
        """Store and start a call; when this returns, it is on disk and will end in a result. False if rejected."""
        wait_s = self._call_rates.take(call.caller)
        if wait_s:
            return await self.accept_error(call, f"too many calls; try again in {wait_s:.3g} seconds")
        key = call.key
        self.quota.acquire(key, call.caller)  # until it is stored, so that concurrent calls count it
        try:
            stored = await self._store.run(tables.insert_call, call, invocation.thread_ancestors or ())
            if stored is not None:
                self.runner.start(stored, invocation)
        finally:
            self.quota.release(key, call.caller)
        return True

    async def accept_error(self, call: tables.NewCall, message: str) -> bool:
        """Store a call together with its error result; False if its caller has sent too many of them."""
        if self._error_rates.take(call.caller):
            return False
        self._outbox.send(await self._store.run(tables.insert_settled_call, call, error_message(call, message)))
        return True

    async def claim_nonce(self, nonce: str, expires_at_s: float) -> bool:
        """Return whether a request is new, in this process and in earlier ones."""
        return await self._store.run(tables.claim_nonce, nonce, int(expires_at_s * 1e9))

    async def cancel(self, caller: str, thread: str, call_id: str) -> None:
        """Cancel a caller's call or subscription; the caller does not learn whether it existed."""
        if not self._notice_rates.take(caller):
            await self._cancel_matching(caller, thread, call_id)

    async def close_thread(self, caller: str, thread: str) -> None:
        """Cancel the questions and subscriptions of a closed thread, and run the author's clean-up."""
        if self._notice_rates.take(caller):
            return
        await self._cancel_matching(caller, thread)
        with suppress(StoreError):  # then the notice counts as lost
            if not await self._store.run(tables.is_owned_by_other, caller, thread):
                for clean_up in self.settings.on_close:
                    self._tasks.start(clean_up(thread))

    async def _cancel_matching(self, caller: str, thread: str, call_id: str | None = None) -> None:
        """Cancel the calls that a notice names; if the disk fails, the notice counts as lost."""
        try:
            self._cancel_all(await self._store.run(tables.cancel_calls, caller, thread, call_id))
        except StoreError as error:
            _log.error("a notice could not be processed: %s", error)

    def _cancel_all(self, calls: list[int]) -> None:
        for call in calls:
            self.runner.cancel(call)

    async def migrate(self, caller: str, request: Migrate) -> str | None:
        """Move a session to another host; return why it failed, or None once everything is moved.

        The destination is contacted first, and the whole migration must end within its limit.
        """
        if await self._store.run(tables.is_owned_by_other, caller, request.session_id):
            return _NOT_MOVED
        url = f"{request.destination_url.rstrip('/')}/.well-known/rap-toolset"
        reply = await self._client.get(url, options=RequestOptions(caller=caller))
        if not reply.is_accepted:
            return "the destination does not answer as a tool server; start it, and make it reachable"
        try:
            async with asyncio.timeout(self.settings.limits.migrate_s):
                for move in self.settings.on_migrate:
                    await move(request.session_id, request.destination_url)
        except Declined as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 -- the author's code may raise anything; the session stays
            _log.error("a migration failed: %s", error_location(error))
            return _NOT_MOVED
        return None

    async def redeem(self, state: str, code: str | None) -> bool:
        """Process the return from an authorization page; False if no authorization is pending for it."""
        question = await self.questions.find(state)
        if question is None or question.secret is None:
            return False
        pending = read_own(question.secret.encode(), PendingAuthorization)
        is_granted = code is not None and await self._grants.redeem(pending, code)
        fault: JsonObject = {"fault": "the authorization was refused or failed; nothing was done"}
        await self.questions.answer(question, {"granted": True} if is_granted else fault)
        return True

    async def _post(self, caller: str, url: str, body: bytes, headers: Mapping[str, str]) -> HttpReply:
        """Post a message to a runtime, with the credential of callbacks; the outbox retries it."""
        presents, receivers = self.settings.presents, self.settings.presents_to
        if presents is not None and (not receivers or origin_of(url) in receivers):
            headers = {**headers, **presents.headers("POST", url, body)}
        options = RequestOptions(caller, send_once=isinstance(presents, Signed))
        return await self._client.post(url, body, headers, options=options)

    async def _handle_rejection(self, message: tables.OutgoingMessage, status: int | None) -> None:
        """React to a message that its runtime rejected.

        A result that is too large is replaced by an error, because the call would wait otherwise. A subscription that
        the runtime does not know ends. A rejected question is answered with a fault.
        """
        if message.kind == "result" and status == _TOO_LARGE and len(message.body) > _SMALL_BYTES:
            body = too_large_message(message.body)
            await self._store.run_until_stored(tables.append_message, message.call, "result", body)
        if message.kind == "result" or status in _GONE:
            self._tasks.start(self._end_subscription(message.call))
        elif message.kind == "question":
            await self.questions.reject_all(message.call)

    async def _end_subscription(self, call: int) -> None:
        await self._store.run(tables.cancel_subscription, call)
        self.runner.cancel(call)

    async def _clean_up(self) -> None:
        """Expire subscriptions, nonces and settled calls, at intervals."""
        while True:
            with suppress(StoreError):  # the next interval tries again
                self._cancel_all(await self.runner.expire())
                await self._store.run(tables.delete_expired_nonces, time.time_ns())
                before = time.time_ns() - int(self.settings.limits.keep_s * 1e9)
                await self._store.run(tables.delete_settled_calls, before)
            await asyncio.sleep(CLEANUP_INTERVAL_S)


@asynccontextmanager
async def open_service(settings: ProviderSettings) -> AsyncGenerator[ProviderService]:
    """Open a provider's store, recover its work, and process calls; unfinished calls stay in the store.

    Raises:
        ConfigError: the store cannot be used.
    """
    async with AsyncExitStack() as stack:
        store = ProviderStore(settings.store)
        stack.push_async_callback(store.close)
        client = HttpClient(settings.policy, limits=settings.limits.delivery_limits)
        stack.push_async_callback(client.close)
        tasks = BackgroundTasks()
        stack.push_async_callback(tasks.stop)
        service = ProviderService(settings, store, client, tasks)
        await service.recover()
        yield service

"""Calls in the background, idempotency keys, and waiting for the result of a call in any process."""

import asyncio
from contextlib import suppress
from hashlib import scrypt, sha256
from typing import cast

from agenttool.call.call import Call, Core
from agenttool.call.call_state import BackgroundState
from agenttool.call.checkpoint import UNAVAILABLE
from agenttool.call.judge import judge
from agenttool.call.phases.input import find_tool
from agenttool.call.run import run_call
from agenttool.call.running import RunningWithin, waiting_for_end
from agenttool.call.services import Tasks, retrieve_exception
from agenttool.codec import digest_of_any, json_bytes, parse_object
from agenttool.errors import ConfigError, KeyConflict, RecordError, StoreError
from agenttool.journal.projection import invocation_of, may_have_acted, result_in
from agenttool.policy.approvals import edit_stands
from agenttool.ports.identity import Principal, name_of_actor
from agenttool.ports.stores import LeaseLost
from agenttool.records import (
    INVOCATION,
    AbortReason,
    InvocationId,
    Json,
    ToolInvocation,
    ToolResult,
)

POLL_S, MAX_POLL_S = 0.1, 2.0
"""How often `wait` polls for the end of a call in another process; the interval grows."""

OWN_POLL_S = 15.0
"""How often it polls for the end of a call in this process, whose end wakes it unless another process recovers it."""

MAX_KEY = 255
"""The maximum length of an idempotency key."""

_DIGITS = 32
_OTHER_REQUEST = "this key or id was used for another tool or other arguments; use a new one"


class BackgroundCalls:
    """The calls that run without a waiting caller, and the wait for their results."""

    def __init__(self, core: Core) -> None:
        """Start without calls; `core` is that of the root runtime."""
        self._core = core
        self._tasks = Tasks()
        self._keyed: dict[InvocationId, Call] = {}
        """The calls of this process that have a key and run, or are about to."""

    async def start(self, call: Call, key: str | None, background: BackgroundState) -> ToolInvocation | None:
        """Run a call in a task; if an earlier call has the key, return that one, and run nothing.

        A call that rules deny now does not get an earlier result.

        Raises:
            ConfigError: the earlier call is of another tool or has other arguments.
            QuotaError: the authenticated caller has too many open calls.
            StoreError: the key cannot be reserved.
        """
        call.core.registry.check_quota((call,))
        background.is_known = key is not None
        if key is None:
            self._launch(call, background)
            return None

        async def reserve_and_launch() -> ToolInvocation | None:
            earlier = await self._reserve_key(call, key)
            if earlier is None:
                self._launch(call, background)
            return earlier

        # If the caller stops waiting, the call runs nevertheless: else the key would stay reserved for no call.
        starting = self._tasks.start(reserve_and_launch())
        starting.add_done_callback(retrieve_exception)
        return await asyncio.shield(starting)

    def _launch(self, call: Call, background: BackgroundState) -> None:
        """Run a call in a task."""
        call.background = background
        call.core.registry.add(call)
        self._tasks.running.add(asyncio.create_task(self._run_within(call)))  # noqa: TID251 -- `stop` waits for it

    async def _run_within(self, call: Call) -> ToolResult:
        try:
            with RunningWithin(call.invocation_id):
                result = await run_call(call)
            if call.background is not None and not call.is_parked:
                call.background.result = result
            return result
        finally:
            if call.background is not None:
                call.background.become_idle()
            self._release_key(call)
            # A callback of the task would cost every call another turn of the event loop.
            self._tasks.running.discard(cast("asyncio.Task[object]", asyncio.current_task()))

    async def call_once(self, call: Call, key: str) -> ToolResult:
        """Run a call and return its result; if an earlier call has the key, wait for the result of that one.

        An earlier call whose process died before it could change anything does not count.

        Raises:
            ConfigError: the earlier call is of another tool or has other arguments, or waits for this one.
            StoreError: the key cannot be reserved.
        """
        try:
            while (earlier := await self._reserve_key(call, key)) is not None:
                result = await self.wait_forever(earlier.invocation_id)
                if key == call.invocation_id or not self._did_nothing(earlier.invocation_id):
                    return result
            call.core.registry.add(call)  # so that its permit is known before it first waits
            return await self._run_within(call)
        finally:
            self._release_key(call)

    async def _reserve_key(self, call: Call, key: str) -> ToolInvocation | None:
        """Reserve a key for a call; return the earlier call that has it, once that is recorded."""
        calls = self._core.durability.checkpoints
        await call.core.host.ensure_lease()
        known = self.recorded(call.invocation_id) if key == call.invocation_id else None
        if known is not None and not _may_be_same_request(known, call):
            raise KeyConflict(_OTHER_REQUEST)
        if key != call.invocation_id and find_tool(call) is None:
            return None  # it is refused
        request, unused = await _request_digest(call, call.invocation_id), None
        while True:
            self._keyed.setdefault(call.invocation_id, call)
            now = call.core.durability.last_lease(call.core.clock.moment())
            try:
                reserved = await calls.reserve(key, call.invocation_id, request=request, now=now, instead_of=unused)
            except LeaseLost:  # nothing was reserved; this process acquires a new lease with the next poll
                await asyncio.sleep(POLL_S)
                continue
            if reserved is None:
                return known  # it may have been started without a key
            self._release_key(call)
            earlier = self.recorded(reserved.invocation_id)
            if earlier is not None:
                if reserved.request != await _request_digest(call, reserved.invocation_id):
                    raise KeyConflict(_OTHER_REQUEST)
                if key != call.invocation_id and self._did_nothing(reserved.invocation_id):
                    unused = reserved.invocation_id
                    continue
                return None if key != call.invocation_id and _is_refused(call) else earlier
            if reserved.owner == calls.owner and reserved.invocation_id not in self._keyed:
                raise StoreError(
                    f"the journal has no record of {reserved.invocation_id}, which was started before with this key:"
                    " it was deleted or could not be written; find out whether it ran, then use another key"
                )
            await asyncio.sleep(POLL_S)  # the process that reserved the key records its call soon, or has died

    def _release_key(self, call: Call) -> None:
        if self._keyed.get(call.invocation_id) is call:
            del self._keyed[call.invocation_id]

    def _did_nothing(self, invocation_id: InvocationId) -> bool:
        """Return whether a process ended a call, or died, before the call could change anything.

        The key of such a call starts it again.
        """
        facts = self._core.journal.log.facts_of(invocation_id)
        result = result_in(facts)
        error = None if result is None else result.error
        if error is None or error.retry is None or error.retry.safe is not True:
            return False
        if error.error_code == UNAVAILABLE:
            return True
        return error.abort_reason == AbortReason.RUNTIME_SHUTDOWN and not may_have_acted(invocation_of(facts))

    def recorded(self, invocation_id: InvocationId) -> ToolInvocation | None:
        """Return a call as the journal records it, with facts that are not on disk yet."""
        return invocation_of(self._core.journal.log.facts_of(invocation_id))

    def known(self, invocation_id: InvocationId) -> ToolInvocation:
        """Return a call as `recorded` does.

        Raises:
            ConfigError: the journal does not have it.
        """
        found = self.recorded(invocation_id)
        if found is None:
            raise ConfigError(
                f"the journal has no call {invocation_id!r}: it was deleted, was not started, or was lost with the"
                " lease of its process before it was recorded; find out whether it ran before you start it again"
            )
        return found

    async def stop(self) -> None:
        """Wait for the end of every call that was started here."""
        await self._tasks.wait()

    async def wait(self, invocation_id: InvocationId, within_s: float | None) -> ToolResult | None:
        """Wait for the stored result of a call, in whichever process it ends; None if the time runs out.

        Raises:
            ConfigError: the journal no longer has it, the runtime is closed, or the call itself waits for the call that
                this code runs in.
        """
        if within_s is None:
            return await self.wait_forever(invocation_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self._wait_until_stored(invocation_id)
        return None

    async def wait_forever(self, invocation_id: InvocationId) -> ToolResult:
        """Wait for the stored result of a call, however long that takes.

        Raises:
            ConfigError: the runtime is closed, or the call itself waits for the call that this code runs in.
        """
        is_here = invocation_id in self._core.registry.calls
        result = None if is_here else await self._stored_result(invocation_id)
        if result is not None:
            return result
        with waiting_for_end(invocation_id) as is_endless:
            if is_endless:
                raise ConfigError(
                    f"{invocation_id} waits for the call that wants to wait for it here, so neither would end;"
                    " use another idempotency key, or do not wait for it within that call"
                )
            return await self._wait_until_stored(invocation_id)

    async def _wait_until_stored(self, invocation_id: InvocationId) -> ToolResult:
        pause_s, registry, journal = POLL_S, self._core.registry, self._core.journal
        with registry.waiter(invocation_id) as call_ended:
            # An open call has no result yet, and reading a large one takes long.
            is_open = invocation_id in registry.calls and not journal.is_closed
            while True:
                call_ended.clear()  # before the read, so that an end during the read is not lost
                result = None if is_open else await self._stored_result(invocation_id)
                if result is not None:
                    return result
                if journal.is_closed:
                    raise ConfigError(
                        f"the runtime was closed before {invocation_id} ended; wait for it in another runtime"
                    )
                is_here = invocation_id in registry.calls
                if not is_here and not is_open:
                    self.known(invocation_id)
                is_open = False
                with suppress(TimeoutError):
                    async with asyncio.timeout(OWN_POLL_S if is_here else pause_s):
                        await call_ended.wait()
                pause_s = pause_s if is_here else min(1.1 * pause_s, MAX_POLL_S)

    async def _stored_result(self, invocation_id: InvocationId) -> ToolResult | None:
        """Return the result of a call once it is stored durably; none if the store is closed."""
        log = self._core.journal.log
        try:
            if log.durable and result_in(log.facts_of(invocation_id)) is not None:
                with suppress(StoreError):  # the disk may work again at the next poll
                    await log.settle()
            return result_in(log.stored_facts_of(invocation_id))
        except StoreError:
            if not self._core.journal.is_closed:
                raise
            return None


async def _request_digest(call: Call, salt: InvocationId) -> bytes:
    """Return a digest of the tool and the arguments of a call.

    A digest of sensitive arguments is slow to compute, so that it does not reveal them. It takes a worker thread about
    50 ms.
    """
    tool, given = find_tool(call), call.request.model_input
    arguments: Json
    try:
        given_members = parse_object(given)
        arguments = given_members if tool is None else tool.with_defaults(given_members)[0]
    except RecordError:
        arguments = given.decode(errors="replace")
    plain = digest_of_any([call.request.name if tool is None else tool.tool_id, arguments]).encode()
    if tool is None or tool.redactor is None:
        return sha256(salt.encode() + plain).digest()
    return await asyncio.to_thread(scrypt, plain, salt=salt.encode(), n=2**14, r=8, p=1, dklen=32)


def _may_be_same_request(known: ToolInvocation, call: Call) -> bool:
    """Return whether a recorded call may have the same tool and arguments; sensitive ones are not recorded."""
    tool = find_tool(call)
    if tool is None or tool.tool_id != known.tool_id:
        return tool is None and call.request.name == known.tool_id
    if tool.redactor is not None or not isinstance(known.model_input, dict):
        return True
    try:
        given = parse_object(call.request.model_input)
    except RecordError:
        return False
    return tool.with_defaults(given)[0] == tool.with_defaults(known.model_input)[0]


def _is_refused(call: Call) -> bool:
    """Return whether rules deny a call whatever hooks do; a hook may change an input that rules deny."""
    tool = find_tool(call)
    if tool is None or tool.hooks:
        verdict = None if tool is None else call.core.policy.standing(tool.subject)
        return verdict is not None and not edit_stands(verdict)
    try:
        arguments = parse_object(call.request.model_input)
    except RecordError:
        return False
    return not edit_stands(judge(call, tool, tool.with_defaults(arguments)[0]))


def key_of_caller(idempotency_key: str, actor: str | Principal | None) -> str:
    """Return the key under which a call is reserved; actors do not share their keys.

    Raises:
        ConfigError: it is not a text of 1 to 255 printable characters.
    """
    if type(idempotency_key) is not str or not 0 < len(idempotency_key) <= MAX_KEY or not idempotency_key.isprintable():
        raise ConfigError(f"an idempotency key is a text of 1 to {MAX_KEY} printable characters")
    return f"key {json_bytes([name_of_actor(actor), idempotency_key]).decode()}"


def call_key(invocation_id: str | None, idempotency_key: str | None, actor: str | Principal | None) -> str | None:
    """Return the key under which a started call is reserved, if it has one.

    Raises:
        ConfigError: it has both an id and a key, or the key is not a text of 1 to 255 printable characters.
    """
    if idempotency_key is None:
        return invocation_id
    if invocation_id is not None:
        raise ConfigError("a call has an invocation_id or an idempotency_key, not both")
    return key_of_caller(idempotency_key, actor)


def unique_part(invocation_id: InvocationId | None) -> str | None:
    """Return the unique part of an id of `rt.calls.new_id`; None without an id.

    Raises:
        ConfigError: `rt.calls.new_id` did not create the id.
    """
    if invocation_id is None:
        return None
    unique = invocation_id.partition("_")[2] if isinstance(cast("object", invocation_id), str) else ""
    if len(unique) != _DIGITS or not INVOCATION.owns(invocation_id):
        raise ConfigError(f"{invocation_id!r} is not an id of rt.calls.new_id(); create one there and pass it")
    return unique

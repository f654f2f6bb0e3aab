"""State between requests: signed request states, and calls that wait for an approval."""

import base64
import hmac
import secrets
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import cast
from weakref import WeakValueDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from agenttool.codec import digest_of_any, json_bytes, parse_object, read_stored, write_own
from agenttool.codec.moments import timestamp
from agenttool.mcp.exchange import ClientExchange
from agenttool.policy.rules import has_passed
from agenttool.ports.identity import Principal, name_of_actor
from agenttool.ports.stores import DocumentStore
from agenttool.records import InvocationId, JsonObject, Part, Timestamp, replace
from agenttool.records.record import field as part_field

STATE_SECONDS = 86_400.0
"""How long a request state is accepted, which is as long as a question is open."""

REPEAT_S = 3_600.0
"""How long a question about the same call mentions an approved call that ended: its reply may have been lost."""

DELETE_EVERY_S = 60.0
"""How often calls whose questions have expired are deleted."""

_KEY_KIND = "mcp_state_key"
_WAITING_KIND = "mcp_waiting_call"
_KEY_NAME = "key"
_KEY_BYTES = 32
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIdentity:
    """The identity of a call: the same actor, profile, target and arguments are the same call.

    Attributes:
        caller: the authenticated caller, or a name.
        profile: the name of the endpoint's profile.
        target: the method, and the tool, prompt or resource.
    """

    caller: str | Principal | None
    profile: str
    target: str
    arguments: JsonObject

    @property
    def actor(self) -> str | None:
        """The name of the caller."""
        return name_of_actor(self.caller)

    @property
    def digest(self) -> str:
        """The digest of all members."""
        return digest_of_any([self.actor, self.profile, self.target, self.arguments])


@dataclass(frozen=True, slots=True)
class RequestStates:
    """Signs and verifies request states by a key; with a durable store also across restarts."""

    key: bytes = field(repr=False)

    @classmethod
    async def open(cls, documents: DocumentStore | None) -> "RequestStates":
        """Return the signer of a store, or one with a key of its own.

        Raises:
            StoreError: the store could not be used.
        """
        fresh = secrets.token_bytes(_KEY_BYTES)
        if documents is None:
            return cls(fresh)
        await documents.swap(_KEY_KIND, _KEY_NAME, before=None, after=fresh)
        return cls(await documents.get(_KEY_KIND, _KEY_NAME) or fresh)

    def sign(self, call: CallIdentity, continues: str, now_s: float) -> str:
        """Return a state that continues a call, for the same call by the same actor only."""
        members: JsonObject = {"call": call.digest, "continues": continues, "until": int(now_s + STATE_SECONDS)}
        body = base64.urlsafe_b64encode(json_bytes({**members, "nonce": secrets.token_hex(4)}))
        return f"{body.decode()}.{self._signature(body).decode()}"

    def verify(self, state: str, call: CallIdentity, now_s: float) -> str:
        """Return what a state continues.

        Raises:
            MCPError: it was changed, is of another call or actor, or has expired.
        """
        body, _, signature = state.encode("utf-8", "replace").partition(b".")
        is_whole = hmac.compare_digest(self._signature(body), signature)
        members = parse_object(base64.urlsafe_b64decode(body)) if is_whole else {}
        if not is_whole:
            fault = "was changed; send it back exactly as it was received"
        elif members.get("call") != call.digest:
            fault = "is of another call; repeat the call with the same name and arguments"
        elif cast("int", members["until"]) < now_s:
            fault = "has expired; make the call again without it"
        else:
            return cast("str", members["continues"])
        raise MCPError(INVALID_PARAMS, f"the requestState {fault}")

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self.key, body, sha256).hex().encode()


class WaitingClientCall(Part, frozen=True, kw_only=True):
    """A call that waits for an approval, or that was approved and has ended.

    Attributes:
        until: the time until which the same call continues it, or mentions it after it has ended.
        ended_at: when it ended; None while it waits.
        nonce: makes its document differ from those of other processes.
    """

    invocation_id: InvocationId
    until: Timestamp
    ended_at: Timestamp | None = None
    nonce: str = part_field(default_factory=lambda: secrets.token_hex(8))

    @property
    def has_expired(self) -> bool:
        """Whether the same call starts a new invocation."""
        return has_passed(self.until, timestamp(time.time_ns()))


class WaitingCalls:
    """The calls that wait for an approval, and those that were approved and have ended.

    The same call by the same actor continues the one that waits. After one that has ended, it is a new call, and its
    question mentions the first: the reply may have been lost, or the caller may want a second run.

    Each is continued once, and until its question expires. A call that still belongs to a request of a client is not
    continued by another request. On a durable store they survive the process, and only one process continues a call.
    """

    def __init__(self, documents: DocumentStore | None) -> None:
        """Take the store of the entries, if there is one."""
        self._documents = documents
        self._waiting: dict[str, dict[InvocationId, WaitingClientCall]] = {}
        self._delete_at_s = 0.0
        self._holders: WeakValueDictionary[InvocationId, ClientExchange] = WeakValueDictionary()

    async def load(self) -> None:
        """Read the calls that other processes left, and delete those that have expired.

        Raises:
            StoreError: the store could not be used.
        """
        after, documents = "", self._documents
        while documents is not None and (page := await documents.page(_WAITING_KIND, after=after, limit=_PAGE)):
            after = page[-1][0]
            for key, body in page:
                found = read_stored(body, WaitingClientCall)
                if found is None or found.has_expired:
                    await documents.put(_WAITING_KIND, key, None)
                else:
                    self._waiting.setdefault(key.partition(" ")[0], {})[found.invocation_id] = found

    def _of(self, call: CallIdentity) -> dict[InvocationId, WaitingClientCall]:
        return self._waiting.get(call.digest, {}) if self._waiting else {}

    def find(self, call: CallIdentity) -> WaitingClientCall | None:
        """Return the waiting call that a repetition of the call continues; None if there is none."""
        for each in self._of(call).values():
            holder = self._holders.get(each.invocation_id)
            if each.ended_at is None and not each.has_expired and (holder is None or holder.has_ended):
                return each
        return None

    def find_ended(self, call: CallIdentity) -> WaitingClientCall | None:
        """Return the last approved run of the same call; None if there is none, or it ended too long ago."""
        ended = [each for each in self._of(call).values() if each.ended_at is not None and not each.has_expired]
        return max(ended, key=lambda each: each.ended_at or "", default=None)

    async def take(self, call: CallIdentity, holder: ClientExchange) -> InvocationId | None:
        """Return the invocation that `find` finds, and assign it to the holder; None if there is none.

        Raises:
            StoreError: it could not be stored.
        """
        while (found := self.find(call)) is not None:
            invocation_id, documents = found.invocation_id, self._documents
            self._holders[invocation_id] = holder
            taken = self._of(call)[invocation_id] = replace(found, nonce=secrets.token_hex(8))
            key, before, after = f"{call.digest} {invocation_id}", write_own(found), write_own(taken)
            if documents is None or await documents.swap(_WAITING_KIND, key, before=before, after=after):
                return invocation_id
            self._of(call).pop(invocation_id, None)  # another process continues it
        return None

    async def add(
        self, call: CallIdentity, invocation_id: InvocationId, until: Timestamp, holder: ClientExchange
    ) -> None:
        """Record that a call waits until some time, and belongs to a holder until that has ended.

        Raises:
            StoreError: it could not be stored.
        """
        await self._delete_expired()
        self._holders[invocation_id] = holder
        before = self._of(call).get(invocation_id)
        if before is None or before.until != until:
            await self._put(call.digest, invocation_id, WaitingClientCall(invocation_id=invocation_id, until=until))

    async def end(self, call: CallIdentity, invocation_id: InvocationId) -> None:
        """Record that a call that waited was approved and has ended, whether or not its reply arrives.

        Raises:
            StoreError: it could not be stored.
        """
        if invocation_id in self._of(call):
            now_ns = time.time_ns()
            until = timestamp(now_ns + round(REPEAT_S * 1e9))
            ended = WaitingClientCall(invocation_id=invocation_id, until=until, ended_at=timestamp(now_ns))
            await self._put(call.digest, invocation_id, ended)

    async def remove(self, call: CallIdentity, invocation_id: InvocationId) -> None:
        """Delete the record of a call that did not run.

        Raises:
            StoreError: it could not be stored.
        """
        if invocation_id in self._of(call):
            await self._put(call.digest, invocation_id, None)

    async def _put(self, digest: str, invocation_id: InvocationId, stored: WaitingClientCall | None) -> None:
        """Store the record of a call, or delete it."""
        known = self._waiting.setdefault(digest, {})
        if stored is not None:
            known[invocation_id] = stored
        elif known.pop(invocation_id, None) is not None and not known:
            del self._waiting[digest]
        if self._documents is not None:
            body = None if stored is None else write_own(stored)
            await self._documents.put(_WAITING_KIND, f"{digest} {invocation_id}", body)

    async def _delete_expired(self) -> None:
        now_s = time.monotonic()
        if now_s < self._delete_at_s:
            return
        self._delete_at_s = now_s + DELETE_EVERY_S
        known = [(digest, each) for digest, calls in self._waiting.items() for each in calls.values()]
        for digest, each in known:
            if each.has_expired:
                await self._put(digest, each.invocation_id, None)

"""State between requests: signed request states, and calls that wait for an approval."""

import base64
import hmac
import secrets
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol, cast
from weakref import WeakValueDictionary

from agenttool.codec import digest_of_any, json_bytes, parse_object
from agenttool.codec.moments import timestamp
from agenttool.errors import RecordError
from agenttool.policy.rules import has_passed
from agenttool.ports.identity import Principal, name_of_actor
from agenttool.ports.stores import DocumentStore
from agenttool.records import InvocationId, JsonObject, Timestamp

STATE_SECONDS = 86_400.0
"""How long a request state is accepted, which is as long as a question is open."""

_KEY_KIND = "mcp_state_key"
_WAITING_KIND = "mcp_waiting_call"
_KEY_NAME = "key"
_KEY_BYTES = 32
_PAGE = 500


class StateError(Exception):
    """A request state was changed, is of another call or caller, or has expired."""


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


class RequestStates:
    """Signs and verifies request states; with a durable store also across restarts."""

    def __init__(self, key: bytes) -> None:
        """Take the key of the signatures."""
        self._key = key

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
            StateError: it was changed, is of another call or actor, or has expired.
        """
        body, _, signature = state.encode("utf-8", "replace").partition(b".")
        if not hmac.compare_digest(self._signature(body), signature):
            raise StateError("the requestState was changed; send it back exactly as it was received")
        members = parse_object(base64.urlsafe_b64decode(body))
        if members.get("call") != call.digest:
            raise StateError("the requestState is of another call; repeat the call with the same name and arguments")
        if cast("int", members["until"]) < now_s:
            raise StateError("the requestState has expired; make the call again without it")
        return cast("str", members["continues"])

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, sha256).hex().encode()


@dataclass(frozen=True, slots=True)
class WaitingClientCall:
    """A call that waits for an approval.

    Attributes:
        until: the time until which the same call continues it.
        stored: its document, as this process read or wrote it last.
    """

    invocation_id: InvocationId
    until: Timestamp
    stored: bytes

    @classmethod
    def of(cls, invocation_id: InvocationId, until: Timestamp) -> "WaitingClientCall":
        """Return a waiting call with a new document; its nonce makes it differ from those of other processes."""
        members: JsonObject = {"invocation_id": invocation_id, "until": until, "nonce": secrets.token_hex(8)}
        return cls(invocation_id, until, json_bytes(members))

    @property
    def has_expired(self) -> bool:
        """Whether the same call starts a new invocation."""
        return has_passed(self.until, timestamp(time.time_ns()))


class CallHolder(Protocol):
    """The work for a request of a client that has a call."""

    @property
    def has_ended(self) -> bool:
        """Whether the work has ended, so that it has the call no longer."""
        ...


class WaitingCalls:
    """The calls that wait for an approval; the same call by the same actor continues the one that waits.

    Each is continued once, and until its question expires. A call that still belongs to a request of a client is not
    continued by another request. On a durable store they survive the process, and only one process continues a call.
    """

    def __init__(self, documents: DocumentStore | None) -> None:
        """Take the store of the entries, if there is one."""
        self._documents = documents
        self._waiting: dict[str, dict[InvocationId, WaitingClientCall]] = {}
        self._holders: WeakValueDictionary[InvocationId, CallHolder] = WeakValueDictionary()

    async def load(self) -> None:
        """Read the calls that other processes left, and delete those that have expired.

        Raises:
            StoreError: the store could not be used.
        """
        after, documents = "", self._documents
        while documents is not None and (page := await documents.page(_WAITING_KIND, after=after, limit=_PAGE)):
            after = page[-1][0]
            for key, body in page:
                found = _waiting_in(body)
                if found is None or found.has_expired:
                    await documents.put(_WAITING_KIND, key, None)
                else:
                    self._waiting.setdefault(key.partition(" ")[0], {})[found.invocation_id] = found

    def find(self, call: CallIdentity) -> WaitingClientCall | None:
        """Return the waiting call that a repetition of the call continues; None if there is none."""
        for each in self._waiting.get(call.digest, {}).values() if self._waiting else ():
            holder = self._holders.get(each.invocation_id)
            if not each.has_expired and (holder is None or holder.has_ended):
                return each
        return None

    async def take(self, call: CallIdentity, holder: CallHolder) -> InvocationId | None:
        """Return the invocation that `find` finds, and assign it to the holder; None if there is none.

        Raises:
            StoreError: it could not be stored.
        """
        while (found := self.find(call)) is not None:
            invocation_id, known = found.invocation_id, self._waiting[call.digest]
            self._holders[invocation_id] = holder
            taken = known[invocation_id] = WaitingClientCall.of(invocation_id, found.until)
            key, documents = _key(call, invocation_id), self._documents
            if documents is None or await documents.swap(_WAITING_KIND, key, before=found.stored, after=taken.stored):
                return invocation_id
            known.pop(invocation_id, None)  # another process continues it
        return None

    async def add(self, call: CallIdentity, invocation_id: InvocationId, until: Timestamp, holder: CallHolder) -> None:
        """Record that a call waits until some time, and belongs to a holder until that has ended.

        Raises:
            StoreError: it could not be stored.
        """
        self._holders[invocation_id] = holder
        known = self._waiting.setdefault(call.digest, {})
        before = known.get(invocation_id)
        if before is None or before.until != until:
            waiting = known[invocation_id] = WaitingClientCall.of(invocation_id, until)
            if self._documents is not None:
                await self._documents.put(_WAITING_KIND, _key(call, invocation_id), waiting.stored)

    async def remove(self, call: CallIdentity, invocation_id: InvocationId) -> None:
        """Delete the record of a call, because its client has its result.

        Raises:
            StoreError: it could not be stored.
        """
        known = self._waiting.get(call.digest) if self._waiting else None
        if known is not None and known.pop(invocation_id, None) is not None:
            if not known:
                del self._waiting[call.digest]
            if self._documents is not None:
                await self._documents.put(_WAITING_KIND, _key(call, invocation_id), None)


def _key(call: CallIdentity, invocation_id: InvocationId) -> str:
    return f"{call.digest} {invocation_id}"


def _waiting_in(body: bytes) -> WaitingClientCall | None:
    try:
        members = parse_object(body)
        return WaitingClientCall(InvocationId(str(members["invocation_id"])), Timestamp(str(members["until"])), body)
    except (RecordError, KeyError):
        return None

"""The open calls in a SQLite file, beside their facts."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from agenttool.ports.deferred import AnswerStatus
from agenttool.ports.facts import Step
from agenttool.ports.stores import NO_CHECKPOINT, LeaseExpired, OpenCall, RecordedAnswer, Reservation, SavedCheckpoint
from agenttool.ports.world import Moment
from agenttool.records import ApprovalId, InvocationId
from agenttool.stores.sqlite.connect import as_json
from agenttool.stores.sqlite.fact_rows import index_rows, lines_of
from agenttool.stores.sqlite.group_commit import GroupCommit
from agenttool.stores.sqlite.leases import (
    ALIVE_OWNERS,
    Values,
    delete_lease,
    has_calls_to_recover,
    has_lease,
    new_owner,
    open_started,
    recover_started_calls,
    renew_lease,
    values_of,
)
from agenttool.stores.sqlite.store_file import StoreFile
from agenttool.stores.sqlite.writer import LeaseState, Writer

_CALL = (
    "SELECT invocation_id, kind, CAST(body AS BLOB), approval_id, expires_at_ns, owner,"
    " (SELECT CAST(answers.body AS BLOB) FROM answers WHERE answers.approval_id = open_calls.approval_id)"
    " FROM open_calls WHERE "
)
_DEAD = f"(owner IS NULL OR owner NOT IN ({ALIVE_OWNERS}))"
_ONE = f"SELECT invocation_id FROM open_calls WHERE invocation_id = :one AND {_DEAD}"  # noqa: S608 -- constants only
_GIVEN = "SELECT 1 FROM answers WHERE answers.approval_id = open_calls.approval_id AND answers.body IS NOT NULL"
_ONE_DUE = f"{_ONE} AND (approval_id IS NULL OR due_at_ns <= :now OR EXISTS ({_GIVEN}))"
# Each arm names its index, so that calls which only wait are not even read.
_DUE = f"""
    SELECT DISTINCT invocation_id FROM (
        SELECT invocation_id, owner FROM open_calls INDEXED BY open_work WHERE approval_id IS NULL
        UNION ALL SELECT invocation_id, owner FROM open_calls INDEXED BY open_due WHERE due_at_ns <= :now
        UNION ALL SELECT invocation_id, owner FROM answers INDEXED BY open_answers
            CROSS JOIN open_calls USING (approval_id) WHERE answers.body IS NOT NULL
    ) WHERE invocation_id > :after AND {_DEAD} ORDER BY invocation_id LIMIT :limit
"""  # noqa: S608 -- constants only
_NOT_ANSWERED = "NOT EXISTS (SELECT 1 FROM answers WHERE answers.approval_id = open_calls.approval_id)"
_WAS_ANSWERED = "SELECT 1 FROM answers WHERE approval_id = ?"
_NOT_ENDING = "invocation_id NOT IN (SELECT value FROM json_each(?))"


class SqliteOpenCalls:
    """Open calls. A checkpoint is written in one transaction with the facts that were appended beside it."""

    def __init__(self, file: StoreFile, writer: Writer, group: GroupCommit, steps: Mapping[str, Step]) -> None:
        self._file = file
        self._writer = writer
        self._group = group
        self._steps = steps
        self.settle = group.settle
        """Returns an awaitable that completes once all that was saved and removed before is on disk."""

    @property
    def owner(self) -> str:
        """The owner name of this process."""
        return self._writer.owner

    def save(self, saved: SavedCheckpoint) -> None:
        """Save the checkpoint of a call, unless another process has claimed it."""
        if saved.invocation_id in self._group.lost:
            return
        if saved.is_unowned:
            self._group.forget(saved.invocation_id)
        self._group.batch.checkpoints[saved.invocation_id] = saved._replace(due_at_ns=saved.due_ns)
        self._group.linger()

    def remove(self, invocation_id: InvocationId, *, is_sensitive: bool = True) -> None:
        """Remove a call that ends, unless another process has claimed it."""
        if invocation_id in self._group.lost:
            return
        self._group.batch.remove(invocation_id, erases=is_sensitive)
        self._group.linger()

    async def renew_lease(self, until: Moment) -> None:
        """Extend the lease of this process."""
        # An owner whose lease was deleted may not renew it under the same name.
        registers = self._writer.lease is not LeaseState.HELD

        def change(connection: sqlite3.Connection) -> None:
            renew_lease(connection, self.owner, until)
            index_rows(connection)

        await self._group.perform(change, lease=LeaseState.HELD if registers else None)

    def replace_owner(self) -> Collection[InvocationId]:
        """Take a new owner name after the lease was lost."""
        self._writer.owner = new_owner()
        self._writer.lease = LeaseState.LOST
        return [InvocationId(call) for call in self._group.drop_open_calls()]

    async def release_lease(self) -> None:
        """End the lease of this process; its calls may be claimed at once."""
        if self._writer.lease is LeaseState.HELD:

            def change(connection: sqlite3.Connection) -> None:
                delete_lease(connection, self.owner)
                index_rows(connection)

            await self._group.perform(change, lease=LeaseState.NONE)
        self._writer.lease = LeaseState.NONE

    async def processes(self, now: Moment) -> Collection[str]:
        """Return the owners with a lease."""
        return [owner for (owner,) in self._file.fetch(ALIVE_OWNERS, values_of(now))]

    async def due(self, *, now: Moment, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Return calls of dead owners that have work to do."""
        values = {**values_of(now), "after": after or "", "limit": limit}
        await self._recover_started(now)
        return self._read(f"invocation_id IN ({_DUE}) ORDER BY invocation_id", values)

    async def claim_one(self, invocation_id: InvocationId, *, now: Moment, if_due: bool = False) -> OpenCall | None:
        """Claim one call of a dead owner."""
        chosen, values = _ONE_DUE if if_due else _ONE, {**values_of(now), "one": invocation_id}
        await self._recover_started(now)
        owner = self.owner
        has_lease, call = await self._group.perform(lambda connection: _claim(connection, owner, chosen, values))
        if not has_lease or owner != self.owner:
            raise LeaseExpired(f"the owner {owner} has no lease; renew it before claiming calls of others")
        if call is not None:
            self._group.claimed.add(invocation_id)
            self._group.lost.discard(invocation_id)  # this process may have lost it before
        return call

    async def reserve(
        self,
        key: str,
        invocation_id: InvocationId,
        *,
        request: bytes = b"",
        now: Moment,
        instead_of: InvocationId | None = None,
    ) -> Reservation | None:
        """Reserve a key for a call; return the earlier reservation if there is one."""
        wanted, moment = Reservation(invocation_id, self.owner, request), values_of(now)
        return await self._group.perform(lambda connection: _reserve(connection, key, wanted, moment, instead_of))

    async def _recover_started(self, now: Moment) -> None:
        """Move the started calls of dead processes to the open calls."""
        with self._file.reading() as reader:
            found = has_calls_to_recover(reader, now)
        if found:
            await self._group.perform(lambda connection: recover_started_calls(connection, self._steps, now))

    async def get(self, invocation_id: InvocationId) -> OpenCall | None:
        """Return one call."""
        found = self._read("invocation_id = ?", (invocation_id,)) or self._started(invocation_id)
        return found[0] if found else None

    async def by_approval(self, approval_id: ApprovalId) -> OpenCall | None:
        """Return the call that waits for the answer to this question."""
        found = self._read("approval_id = ?", (approval_id,))
        return found[0] if found else None

    async def page(self, *, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Return open calls by age; ids sort by time."""
        saved = self._read("invocation_id > ? ORDER BY invocation_id LIMIT ?", (after or "", limit))
        started = [each for each in self._started() if each.invocation_id > (after or "")]
        return sorted([*saved, *started], key=lambda call: call.invocation_id)[:limit]

    def _started(self, one: InvocationId | None = None) -> list[OpenCall]:
        with self._file.reading() as reader:
            found = open_started(reader, self._steps, one)
            return [OpenCall(invocation_id=call, kind=NO_CHECKPOINT, body=b"", owner=owner) for owner, call in found]

    async def awaiting_answer(
        self, *, after: ApprovalId | None = None, limit: int, prefix: str = "apr_"
    ) -> Sequence[OpenCall]:
        """Return calls that wait for an answer, by the age of their questions."""
        # A call that is just ending needs no answer.
        among = (
            f"approval_id > ? AND approval_id < ? AND {_NOT_ANSWERED} AND {_NOT_ENDING} ORDER BY approval_id LIMIT ?"
        )
        return self._read(among, (after or prefix, f"{prefix}\x7f", as_json(self._group.removing()), limit))

    async def answer(self, approval_id: ApprovalId, body: bytes, *, now_ns: int) -> AnswerStatus:
        """Record the answer to a question."""
        return await self._group.perform(lambda connection: _answer(connection, approval_id, body, now_ns))

    async def was_answered(self, approval_id: ApprovalId) -> bool:
        """Return whether a question was answered."""
        return bool(self._file.fetch(_WAS_ANSWERED, (approval_id,)))

    async def answers(self, *, after: int, limit: int) -> Sequence[RecordedAnswer]:
        """Return answers that calls still wait for."""
        query = (
            "SELECT number, approval_id, CAST(body AS BLOB) FROM answers WHERE number > ? AND body NOT NULL"
            " ORDER BY number LIMIT ?"
        )
        found = self._file.fetch(query, (after, limit))
        return [RecordedAnswer(number=number, approval_id=about, body=body) for number, about, body in found]

    def _read(self, which: str, values: Sequence[str | int] | Values) -> list[OpenCall]:
        return [OpenCall(*row) for row in self._file.fetch(_CALL + which, values)]


def _claim(connection: sqlite3.Connection, owner: str, chosen: str, values: Values) -> tuple[bool, OpenCall | None]:
    """Claim a call inside a transaction; return whether the claiming owner has a lease, and the call as it was."""
    if not has_lease(connection, owner, values):
        return False, None
    found = connection.execute(_CALL + f"invocation_id IN ({chosen})", values).fetchone()
    if found is None:
        return True, None
    call = OpenCall(*found)
    connection.execute("UPDATE open_calls SET owner = ? WHERE invocation_id = ?", (owner, call.invocation_id))
    if call.owner is not None:  # it loses its lease: if it only slept, it can write nothing when it wakes
        delete_lease(connection, call.owner)
    return True, call


def _reserve(
    connection: sqlite3.Connection, key: str, wanted: Reservation, now: Values, instead_of: InvocationId | None
) -> Reservation | None:
    """Reserve a key inside a transaction; return the earlier reservation if there is one."""
    query = "SELECT invocation_id, owner, request FROM call_keys WHERE key = ?"
    found = connection.execute(query, (key,)).fetchone()
    if found is not None and found[0] != instead_of:
        first = Reservation(*found)
        if has_lease(connection, first.owner, now) or next(lines_of(connection, first.invocation_id), None) is not None:
            return first
        delete_lease(connection, first.owner)  # if it only slept, it can write nothing when it wakes
    connection.execute("REPLACE INTO call_keys VALUES (?, ?, ?, ?)", (key, *wanted))
    return None


def _answer(connection: sqlite3.Connection, approval_id: ApprovalId, body: bytes, now_ns: int) -> AnswerStatus:
    if connection.execute(_WAS_ANSWERED, (approval_id,)).fetchone():
        return AnswerStatus.ANSWERED
    query = "SELECT expires_at_ns FROM open_calls WHERE approval_id = ?"
    found = connection.execute(query, (approval_id,)).fetchone()
    if found is None:
        return AnswerStatus.UNKNOWN
    if found[0] is not None and found[0] <= now_ns:
        return AnswerStatus.EXPIRED
    connection.execute("INSERT INTO answers (approval_id, at_ns, body) VALUES (?, ?, ?)", (approval_id, now_ns, body))
    return AnswerStatus.ACCEPTED

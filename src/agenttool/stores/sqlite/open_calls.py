"""The calls under way, in the file beside their facts."""

import secrets
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from agenttool.errors import StoreError
from agenttool.ports.facts import Step
from agenttool.ports.stores import NO_CHECKPOINT, AnswerStatus, OpenCall, RecordedAnswer
from agenttool.ports.world import Moment
from agenttool.records import ApprovalId, InvocationId
from agenttool.stores.sqlite.begun import adopt, has_orphans, still_open
from agenttool.stores.sqlite.connect import reading
from agenttool.stores.sqlite.groups import GroupCommit
from agenttool.stores.sqlite.lists import as_json
from agenttool.stores.sqlite.loose import bind, let_go_of_ended
from agenttool.stores.sqlite.owners import ALIVE, Values, is_alive, renew, retire, values_of
from agenttool.stores.sqlite.writer import Standing, Writer

_Row: TypeAlias = tuple[InvocationId, str, bytes, ApprovalId | None, int | None, str | None, bytes | None]

_CALL = (
    "SELECT invocation_id, kind, CAST(body AS BLOB), approval_id, expires_at_ns, owner,"
    " (SELECT CAST(answers.body AS BLOB) FROM answers WHERE answers.approval_id = open_calls.approval_id)"
    " FROM open_calls WHERE "
)
_DEAD = f"(owner IS NULL OR owner NOT IN ({ALIVE}))"
_ONE = f"SELECT invocation_id FROM open_calls WHERE invocation_id = :one AND {_DEAD}"  # noqa: S608 -- constants only
_GIVEN = "SELECT 1 FROM answers WHERE answers.approval_id = open_calls.approval_id AND answers.body IS NOT NULL"
_ONE_DUE = f"{_ONE} AND (approval_id IS NULL OR due_at_ns <= :now OR EXISTS ({_GIVEN}))"
# Each arm is told which index to go by, so that calls which only wait are not even looked at.
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
    """Calls under way. What is held or released goes to disk in one transaction with the facts noted beside it."""

    def __init__(
        self, path: Path, reader: sqlite3.Connection, writer: Writer, group: GroupCommit, steps: Mapping[str, Step]
    ) -> None:
        """Take the file, a connection to read by, all that writes, and every step by its name."""
        self._path = path
        self._reader = reader
        self._writer = writer
        self._group = group
        self._steps = steps

    @property
    def owner(self) -> str:
        """The name of this process."""
        return self._writer.owner

    def save(  # noqa: PLR0913 -- the columns of a call
        self,
        invocation_id: InvocationId,
        *,
        kind: str,
        body: bytes,
        approval_id: ApprovalId | None = None,
        expires_at_ns: int | None = None,
        due_at_ns: int | None = None,
        is_unowned: bool = False,
    ) -> None:
        """Keep what a call needs to go on."""
        due_ns = expires_at_ns if due_at_ns is None else due_at_ns
        if is_unowned:
            self._group.forget(invocation_id)
        self._group.batch.held.append((invocation_id, kind, body, approval_id, expires_at_ns, due_ns, is_unowned))
        self._group.linger()

    def remove(self, invocation_id: InvocationId) -> None:
        """Let go of a call that ends."""
        self._group.batch.released.append(invocation_id)
        self._group.linger()

    async def settle(self) -> None:
        """Return once all that was held and released before is on disk."""
        await self._group.settle()

    async def renew_lease(self, until: Moment) -> None:
        """Say that this process is alive until then."""
        # Whoever was struck off may not say so under the same name.
        registers = self._writer.standing is not Standing.ALIVE
        under_way = [*self._group.begun]

        def change(connection: sqlite3.Connection) -> None:
            renew(connection, self.owner, until)
            bind(connection)
            let_go_of_ended(connection, self.owner, under_way)

        await self._group.perform(change, registers=registers)

    def replace_owner(self) -> Collection[InvocationId]:
        """Take another name after having been taken for dead."""
        self._writer.owner = secrets.token_hex(8)
        self._writer.standing = Standing.NAMELESS
        return [InvocationId(call) for call in self._group.lose()]

    async def release_lease(self) -> None:
        """Say that this process is no more; whatever it still holds may be claimed at once."""
        if self._writer.standing is Standing.ALIVE:

            def change(connection: sqlite3.Connection) -> None:
                retire(connection, self.owner)
                bind(connection)

            await self._group.perform(change)
        self._writer.standing = Standing.UNKNOWN

    async def due(self, *, now: Moment, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Give calls of dead owners that there is something to do for."""
        values = {**values_of(now), "after": after or "", "limit": limit}
        await self._inherit(now)
        with reading(self._path):
            found = self._reader.execute(f"{_CALL} invocation_id IN ({_DUE}) ORDER BY invocation_id", values).fetchall()
        return [_call(row) for row in found]

    async def claim(self, *, now: Moment, limit: int) -> Sequence[OpenCall]:
        """Take calls of dead owners that there is something to do for."""
        return await self._claim(_DUE, now, after="", limit=limit)

    async def claim_one(self, invocation_id: InvocationId, *, now: Moment, if_due: bool = False) -> OpenCall | None:
        """Take one call of a dead owner."""
        found = await self._claim(_ONE_DUE if if_due else _ONE, now, one=invocation_id)
        return found[0] if found else None

    async def _inherit(self, now: Moment) -> None:
        """Have what dead processes had begun among the calls that can be taken."""
        with reading(self._path):
            is_heir = has_orphans(self._reader, now)
        if is_heir:
            await self._group.perform(lambda connection: adopt(connection, self._steps, now))

    async def _claim(self, chosen: str, now: Moment, **more: str | int) -> list[OpenCall]:
        values = {**values_of(now), **more}
        await self._inherit(now)
        found = await self._group.perform(lambda connection: _claim(connection, self.owner, chosen, values))
        if found is None:
            raise StoreError(f"the owner {self.owner} is not alive itself; renew before taking calls of others")
        return found

    async def get(self, invocation_id: InvocationId) -> OpenCall | None:
        """Give one call."""
        found = self._read("invocation_id = ?", invocation_id) or self._begun(invocation_id)
        return found[0] if found else None

    async def by_approval(self, approval_id: ApprovalId) -> OpenCall | None:
        """Give the call that waits for the answer to this question."""
        found = self._read("approval_id = ?", approval_id)
        return found[0] if found else None

    async def page(self, *, after: InvocationId | None = None, limit: int) -> Sequence[OpenCall]:
        """Give open calls by age; ids sort by time."""
        kept = self._read("invocation_id > ? ORDER BY invocation_id LIMIT ?", after or "", limit)
        begun = [each for each in self._begun() if each.invocation_id > (after or "")]
        return sorted([*kept, *begun], key=lambda call: call.invocation_id)[:limit]

    def _begun(self, one: InvocationId | None = None) -> list[OpenCall]:
        with reading(self._path):
            found = still_open(self._reader, self._steps, one)
            return [OpenCall(invocation_id=call, kind=NO_CHECKPOINT, body=b"", owner=owner) for owner, call in found]

    async def awaiting_answer(
        self, *, after: ApprovalId | None = None, limit: int, prefix: str = "apr_"
    ) -> Sequence[OpenCall]:
        """Give calls that wait for an answer, by the age of their questions."""
        # Nobody need be asked about a call that ends just now.
        among = (
            f"approval_id > ? AND approval_id < ? AND {_NOT_ANSWERED} AND {_NOT_ENDING} ORDER BY approval_id LIMIT ?"
        )
        return self._read(among, after or prefix, f"{prefix}\x7f", as_json(self._group.releasing()), limit)

    async def answer(self, approval_id: ApprovalId, body: bytes, *, now_ns: int) -> AnswerStatus:
        """Give the answer to a question."""
        return await self._group.perform(lambda connection: _answer(connection, approval_id, body, now_ns))

    async def was_answered(self, approval_id: ApprovalId) -> bool:
        """Tell whether a question was answered."""
        with reading(self._path):
            return self._reader.execute(_WAS_ANSWERED, (approval_id,)).fetchone() is not None

    async def answers(self, *, after: int, limit: int) -> Sequence[RecordedAnswer]:
        """Give answers that calls still wait for."""
        query = (
            "SELECT number, approval_id, CAST(body AS BLOB) FROM answers WHERE number > ? AND body NOT NULL"
            " ORDER BY number LIMIT ?"
        )
        with reading(self._path):
            found = self._reader.execute(query, (after, limit)).fetchall()
        return [RecordedAnswer(number=number, approval_id=about, body=body) for number, about, body in found]

    def _read(self, which: str, *values: str | int) -> list[OpenCall]:
        with reading(self._path):
            return [_call(row) for row in self._reader.execute(_CALL + which, values).fetchall()]


def _claim(connection: sqlite3.Connection, owner: str, chosen: str, values: Values) -> list[OpenCall] | None:
    """Take calls inside a transaction; nothing if whoever wants them is not alive."""
    if not is_alive(connection, owner, values):
        return None
    found = connection.execute(_CALL + f"invocation_id IN ({chosen})", values).fetchall()
    calls = [_call(row) for row in found]
    taken = [(owner, call.invocation_id) for call in calls]
    connection.executemany("UPDATE open_calls SET owner = ? WHERE invocation_id = ?", taken)
    # Whoever lost a call is dead for good: should it only have slept, it can write nothing when it wakes up.
    dead = {call.owner for call in calls if call.owner != owner}
    connection.executemany("DELETE FROM processes WHERE owner = ?", [(each,) for each in dead])
    return calls


def _call(row: _Row) -> OpenCall:
    invocation_id, kind, body, approval_id, expires_at_ns, owner, answer = row
    return OpenCall(
        invocation_id=invocation_id,
        kind=kind,
        body=body,
        approval_id=approval_id,
        expires_at_ns=expires_at_ns,
        owner=owner,
        answer=answer,
    )


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

"""`agenttool verify`: whether the journal and its payloads are unchanged and consistent."""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import cast

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from agenttool.call.checkpoint import Checkpoint, checkpoint_mismatch, index_mismatch
from agenttool.cli.format import print_json
from agenttool.cli.options import StoreOptions, option, output_file
from agenttool.cli.output import INTERRUPTED, figures, fixed, hint, plain_table, print_blocks
from agenttool.cli.progress import WorkBar
from agenttool.codec import digest_of_any, json_bytes, read, read_own, to_json
from agenttool.durable.stored_approvals import is_forged
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.history.printable import printable
from agenttool.journal import steps
from agenttool.journal.projection import records_of
from agenttool.ports.facts import Fact
from agenttool.ports.stores import Head, JournalFlaw, PayloadStore
from agenttool.records import (
    UNSET,
    Behavior,
    Digest,
    EventType,
    Json,
    PermissionDecision,
    Record,
    ToolResult,
)
from agenttool.stores.payloads import ObjectPayloads, digests_in, flaw_of, is_there
from agenttool.stores.sqlite.reader import SqliteReader

FLAWS_FOUND = 1
MAX_SHOWN = 100

_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
_HASH = re.compile(r"(?<![0-9a-f])([0-9a-f]{12})[0-9a-f]{52}(?![0-9a-f])")
_PLAIN_STEPS = tuple(
    step
    for step in steps.STEPS.values()
    if step.transitions[: len(steps.LAUNCHED.transitions)] == steps.LAUNCHED.transitions
)
"""The steps of calls to tools without sensitive fields."""


def verify(
    *,
    pin: Path | None = option("--pin FILE", "A head that --write-head wrote earlier"),
    head: str | None = option("--head POSITION:HASH", "An earlier head"),
    write_head: Path | None = option("--write-head FILE", "Write the head here if no flaw is found"),
    payloads: str | None = option("--payloads PLACE", "Folder or URL of the payloads, if not beside the journal"),
    options: StoreOptions,
) -> None:
    """Check that the journal is unchanged and consistent.

    It checks the pages of the database, the hash chain of the facts, the order of
    statuses, that each ended call has one result, that each approved input is the
    input that was asked about, and the digests of stored payloads that still exist.
    Store a head where writers of the journal cannot change it: without one, a
    rebuilt chain is not detected.

    Exits with 0 if no flaw was found, 1 if one was, 2 if the journal could not be
    read.
    """
    pinned, write_head = _pinned_head(pin, head), output_file(write_head)
    with options.open_journal() as reader, reader.at_one_moment():
        place = payloads or options.payload_location(reader.path)
        stored = ObjectPayloads.open(place) if "://" in place or Path(place).is_dir() else None
        with WorkBar(reader.count()[0]) as bar, asyncio.Runner() as runner:
            inspector = JournalInspector(reader, stored, runner, bar.advance)
            found = chain(reader.verify(pinned, inspector.check), inspector.check_open_calls(reader.head().position))
            flaws, total = _collect(found)
        chained = {"anchor": reader.anchor(), "head": reader.head(), "pinned": pinned}
        ends = {name: None if end is None else to_json(end) for name, end in chained.items()}
        print_json({"type": "summary", **inspector.counts, "flaws": total, **ends})
        more = [f"… and {total - MAX_SHOWN:,} more; --json prints all of them"] if total > MAX_SHOWN else []
        if flaws:
            print_blocks([_flaw_table(flaws), *more, ""])
        _print_report(reader, pinned, inspector.counts, total)
        if write_head is not None and not total:
            _write_head(reader.head(), write_head)
    if total:
        raise typer.Exit(FLAWS_FOUND)


def _collect(found: Iterable[JournalFlaw]) -> tuple[list[JournalFlaw], int]:
    """Return the first flaws, for a terminal, and the number of all flaws; with JSON, print each at once."""
    shown: list[JournalFlaw] = []
    total = 0
    try:
        for flaw in found:
            total += 1
            print_json({"type": "flaw", **to_json(flaw)})
            if total <= MAX_SHOWN:
                shown.append(flaw)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    return shown, total


def _print_report(reader: SqliteReader, pinned: Head | None, counts: dict[str, int], flaws: int) -> None:
    anchor, head, gone = reader.anchor().position, reader.head(), counts["gone"]
    sealed = f", {counts['sealed']:,} sealed: their tools have sensitive fields" if counts["sealed"] else ""
    deleted = f", from {anchor + 1:,} on: retention deleted older ones" if anchor else ""
    missing = f", {gone:,} missing: expired, deleted, or stored elsewhere" if gone else ""
    rows: dict[str, str | Text] = {
        "facts": f"{counts['facts']:,}{deleted}",
        "calls": f"{counts['calls']:,}, of which {counts['ended']:,} ended",
        "digests": f"{counts['digests']:,} checked{sealed}",
        "payloads": f"{counts['payloads']:,} checked{missing}",
        "pin": "none given: a rebuilt chain is not detected" if pinned is None else f"at {pinned.position:,}",
        "flaws": Text(f"{flaws:,}", style="bold red" if flaws else "bold green"),
    }
    if not (counts["payloads"] or gone):
        del rows["payloads"]
    # The head stays on one line, whatever the width, so that it can be copied.
    line = Text(f"head      {head.position}:{head.hash}", no_wrap=True, overflow="ignore")
    table = plain_table(rows=rows.items())
    table.columns[0].min_width = len("payloads")
    print_blocks([table, Group(line)])


def _flaw_table(flaws: list[JournalFlaw]) -> Table:
    rows = (
        (str(each.position), each.what, _short_hashes(each.expected), Text(_short_hashes(each.found), style="red"))
        for each in flaws
    )
    return plain_table(figures("position"), fixed("what", "cyan"), "expected", "found", rows=rows)


def _short_hashes(text: str) -> str:
    return _HASH.sub(r"\1…", printable(text))


def _pinned_head(pin: Path | None, head: str | None) -> Head | None:
    """Return the head that one of the two options names."""
    if pin is not None and head is not None:
        raise ConfigError(f"two heads are given, {str(pin)!r} and {head!r}; give one of them")
    if head is not None:
        match = _HEAD.fullmatch(head)
        if match is None:
            raise ConfigError(f"a head is written POSITION:HASH, got {head!r}; copy it from an earlier verify")
        return Head(position=int(match[1]), hash=match[2])
    if pin is None:
        return None
    try:
        return read(pin.read_bytes(), Head)
    except OSError as error:
        raise ConfigError(f"cannot read the pin {str(pin)!r}: {error.strerror}; name another file") from error
    except RecordError as error:
        raise ConfigError(f"{str(pin)!r} holds no head: {error}; write one with --write-head") from error


def _write_head(head: Head, path: Path) -> None:
    try:
        path.write_bytes(json_bytes(to_json(head)) + b"\n")
    except OSError as error:
        raise ConfigError(f"cannot write the head to {str(path)!r}: {error.strerror}; name another file") from error
    hint(f"wrote the head to {path}")


class JournalInspector:
    """Checks what the hash chain cannot show: digests, duplicate results, payloads, and the state of open calls.

    Attributes:
        counts: how many facts were checked, how many of them began (`calls`) or `ended` a call; how many input
            `digests` were checked, and how many could not be, because they are `sealed`; how many `payloads` were
            read, and how many are `gone`, for example because they have expired.
    """

    def __init__(
        self, reader: SqliteReader, payloads: PayloadStore | None, runner: asyncio.Runner, on_fact: Callable[[], None]
    ) -> None:
        """Read payloads with `runner`; without a store, every payload is gone. `on_fact` is called for each fact."""
        names = ("facts", "calls", "ended", "digests", "sealed", "payloads", "gone")
        self.counts: dict[str, int] = dict.fromkeys(names, 0)
        self._reader = reader
        self._payloads = payloads
        self._runner = runner
        self._on_fact = on_fact
        self._seen: set[Digest] = set()

    def check(self, position: int, fact: Fact) -> Iterator[JournalFlaw]:
        """Yield the flaws of one fact; call it for each fact, in order."""
        self.counts["facts"] += 1
        self._on_fact()
        if fact.invocation_id is None:
            return
        if fact.sequence == 0:
            self.counts["calls"] += 1
            if not self._reader.begins(fact.invocation_id, position):
                found = f"{fact.invocation_id} began before"
                yield JournalFlaw(position=position, what="call", expected="a call that is new", found=found)
        records = () if fact.data is None or isinstance(fact.data, dict) else fact.data.records(fact)
        yield from self._check_results(position, fact, records)
        for digest in digests_in(records):
            if digest not in self._seen and (flaw := self._runner.run(self._check_payload(position, digest))):
                yield flaw
        for record in records:
            if isinstance(record, PermissionDecision) and record.input_digest is not None:
                check = self._check_decision if record.answers is None else self._check_answer
                yield from check(position, fact, record)

    async def _check_payload(self, position: int, digest: Digest) -> JournalFlaw | None:
        """Return a flaw if the payload's bytes do not match its digest; each payload is read once."""
        self._seen.add(digest)
        if self._payloads is None or not await is_there(self._payloads, digest):
            self.counts["gone"] += 1
            return None
        self.counts["payloads"] += 1
        return await flaw_of(self._payloads, digest, position)

    def check_open_calls(self, position: int) -> Iterator[JournalFlaw]:
        """Yield the checkpoints of open calls that do not match the log."""
        for opened in self._reader.open_calls():
            call = opened.invocation_id
            try:
                held, facts = read_own(opened.body, Checkpoint), [fact for _, fact in self._reader.facts_of(call)]
                what = checkpoint_mismatch(opened.kind, held, facts) or index_mismatch(opened, held, facts)
                what = what or ("answer" if is_forged(self._reader.read, opened) else None)
                found = None if what is None else f"another {what}"
            except (RecordError, StoreError) as error:
                found = str(error)
            if found is not None:
                expected = f"what the log records of {call}"
                yield JournalFlaw(position=position, what="checkpoint", expected=expected, found=found)

    def _check_results(self, position: int, fact: Fact, records: tuple[Record, ...]) -> Iterator[JournalFlaw]:
        """Yield a flaw for an unexpected result; the walk of the chain detects a missing one."""
        results = sum(isinstance(record, ToolResult) for record in records)
        is_end = fact.step.last is not None and fact.step.last.is_terminal
        self.counts["ended"] += is_end
        if results > is_end:
            expected = f"{int(is_end)}, at its end" if is_end else "none before its end"
            yield JournalFlaw(position=position, what="result", expected=expected, found=str(results))

    def _check_decision(self, position: int, fact: Fact, decision: PermissionDecision) -> Iterator[JournalFlaw]:
        """Compare the digest of the input that the rules judged.

        The digest of a call to a tool with sensitive fields is sealed and cannot be computed from the journal; the
        fact has a flag for it. Earlier versions wrote no flag: unless the call is plain, a mismatch counts as sealed.
        """
        if fact.data is None or isinstance(fact.data, dict):
            return
        expected = digest_of_any(cast("Json", fact.data.contributes().get("permission_input")))
        is_sealed = fact.data.members(EventType.PERMISSION_REQUESTED).get("sealed", fact.step not in _PLAIN_STEPS)
        if expected == decision.input_digest or is_sealed:
            self.counts["digests" if expected == decision.input_digest else "sealed"] += 1
        else:
            yield JournalFlaw(position=position, what="digest", expected=expected, found=str(decision.input_digest))

    def _check_answer(self, position: int, fact: Fact, answer: PermissionDecision) -> Iterator[JournalFlaw]:
        """Check that the approved input is the one that was asked about; an edited input has its own digest."""
        if answer.behavior is not Behavior.ALLOW or answer.updated_input is not UNSET or fact.invocation_id is None:
            return
        records = records_of(each for _, each in self._reader.facts_of(fact.invocation_id))
        asked = [
            each for each in records if isinstance(each, PermissionDecision) and each.decision_id == answer.answers
        ]
        self.counts["digests"] += 1
        for question in asked:
            if question.input_digest != answer.input_digest:
                expected, found = str(question.input_digest), str(answer.input_digest)
                yield JournalFlaw(position=position, what="digest", expected=expected, found=found)

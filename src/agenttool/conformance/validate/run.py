"""One run of the validator: files in, findings out, one after another, and figures at the end."""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from agenttool.conformance.validate.across.calls import check_calls
from agenttool.conformance.validate.across.decisions import check_decisions, check_tools_of_events
from agenttool.conformance.validate.across.progress import check_progress
from agenttool.conformance.validate.across.references import check_references
from agenttool.conformance.validate.across.repeats import check_repeats
from agenttool.conformance.validate.documents import MAX_RECORD, read_documents
from agenttool.conformance.validate.facts import Facts
from agenttool.conformance.validate.finding import Finding, Flaw, Layer, Origin, Severity, shown_id
from agenttool.conformance.validate.gather import Gatherer
from agenttool.conformance.validate.inputs import check_kept_inputs
from agenttool.conformance.validate.kinds import id_of, kind_of
from agenttool.conformance.validate.parse import parse
from agenttool.conformance.validate.piece import FLAWS, Document, Trouble
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.sense.checks import flaws_of
from agenttool.conformance.validate.shape import misfits_of
from agenttool.conformance.validate.spelling import in_todays_words
from agenttool.conformance.validate.summary import Summary

NOT_AN_OBJECT = Flaw(
    message="a record is a JSON object, and this is none",
    expected="an object",
    advice="write one object per record",
    layer=Layer.SHAPE,
)


class Validation:
    """A run over a set of files. Read each file, then conclude; findings come as they are made and are not kept.

    Use it as a context: what it remembers for the conclusion is on disk, and removed when the context is left.
    """

    def __init__(self, *, max_record: int = MAX_RECORD, on_bytes: Callable[[int], None] | None = None) -> None:
        """Take the size beyond which a document is passed over, and whom to tell how much was read."""
        self._max_record = max_record
        self._on_bytes = on_bytes
        self._facts = Facts()
        self._gatherer = Gatherer(self._facts)
        self._records: Counter[str] = Counter()
        self._severities: Counter[Severity] = Counter()
        self._files = self._bytes = self._unreadable = 0

    def __enter__(self) -> Self:
        """Start the run."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forget everything."""
        self._facts.__exit__(kind, error, trace)

    def read(self, name: str, stream: io.BufferedIOBase) -> Iterator[Finding]:
        """Read one file to its end and say what is wrong with its records, each for itself.

        Raises:
            OSError: the file cannot be read.
            StoreError: there is no room for what must be remembered.
        """
        self._files += 1
        name = name.encode(errors="replace").decode()
        file = self._facts.add_file(name)
        for piece in read_documents(stream, max_record=self._max_record, on_bytes=self._count_bytes):
            if isinstance(piece, Document):
                findings = self._check(name, file, piece)
            else:
                self._unreadable += piece.trouble in (Trouble.TOO_LARGE, Trouble.NOT_UTF8)
                findings = iter((Origin(name, piece.line).finding(FLAWS[piece.trouble]),))
            for finding in findings:
                self._severities[finding.severity] += 1
                yield finding

    def conclude(self) -> Iterator[Finding]:
        """Say what is wrong with the records of all files together.

        Raises:
            StoreError: there is no room for the answer.
        """
        self._facts.settle()
        for answers in (
            check_references(self._facts, unreadable=self._unreadable),
            check_repeats(self._facts),
            check_calls(self._facts),
            check_decisions(self._facts),
            check_tools_of_events(self._facts),
            check_progress(self._facts),
            check_kept_inputs(self._facts),
        ):
            for number, flaw in answers:
                self._severities[flaw.severity] += 1
                yield self._facts.origin(number).finding(flaw)

    @property
    def summary(self) -> Summary:
        """The figures of the run so far."""
        return Summary(
            files=self._files,
            bytes=self._bytes,
            records=dict(sorted(self._records.items())),
            unreadable=self._unreadable,
            errors=self._severities[Severity.ERROR],
            warnings=self._severities[Severity.WARNING],
        )

    def _count_bytes(self, size: int) -> None:
        self._bytes += size
        if self._on_bytes:
            self._on_bytes(size)

    def _check(self, name: str, file: int, document: Document) -> Iterator[Finding]:
        parsed = parse(document.data)
        if isinstance(parsed, Flaw):
            self._unreadable += 1
            yield Origin(name, document.line).finding(parsed)
            return
        members = parsed.value
        kind = kind_of(members) if isinstance(members, dict) else NOT_AN_OBJECT
        if isinstance(members, dict) and isinstance(kind, str):
            self._records[kind] += 1
            today = in_todays_words(kind, members)
            is_exact = parsed.is_exact and today.members is members
            record = ForeignRecord(kind, today.members, document.data, is_exact, today.old_pointers)
            adding = self._gatherer.add(record, file=file, line=document.line, content=parsed.content)
            flaws = chain(parsed.flaws, today.flaws, misfits_of(kind, record.members), flaws_of(record), adding)
            for flaw in flaws:
                origin = Origin(name, document.line, kind, shown_id(id_of(kind, members)))
                yield origin.finding(replace(flaw, pointer=record.in_file(flaw.pointer)))
        elif isinstance(kind, Flaw):
            self._unreadable += 1
            yield from map(Origin(name, document.line).finding, (*parsed.flaws, kind))

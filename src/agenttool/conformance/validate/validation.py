"""Validate a set of files: read each, then check all of them together."""

import io
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain

from msgspec.structs import replace

from agenttool.conformance.validate.cross_checks import cross_check
from agenttool.conformance.validate.documents import MAX_RECORD, Document, read_documents
from agenttool.conformance.validate.finding import Finding, Origin, Severity, Summary, flaw, shown_id
from agenttool.conformance.validate.foreign_records import (
    ForeignRecord,
    flaws_of_spelling,
    id_of,
    in_current_spelling,
    kind_of,
)
from agenttool.conformance.validate.parse import parse
from agenttool.conformance.validate.record_checks import flaws_of
from agenttool.conformance.validate.record_index import RecordIndex
from agenttool.conformance.validate.schema_checks import misfits_of
from agenttool.errors import StoreError


class Validation(AbstractContextManager["Validation"]):
    """A run over a set of files: `read` each file, then `conclude`. Findings are yielded as they are made.

    Use it as a context manager: leaving it deletes the index on disk.

    Raises:
        StoreError: the index cannot be written.
    """

    def __init__(self, *, max_record: int = MAX_RECORD, on_bytes: Callable[[int], None] | None = None) -> None:
        """Set the size above which a document is skipped; `on_bytes` is called with each size read."""
        self._max_record = max_record
        self._on_bytes = on_bytes
        self._index = RecordIndex()
        self._records: Counter[str] = Counter()
        self._severities: Counter[Severity] = Counter()
        self._files = self._bytes = self._unreadable = 0

    def __exit__(self, *raised: object) -> None:
        self._index.close()
        if isinstance(error := raised[1], sqlite3.Error):
            remedy = "free space for temporary files (TMPDIR)"
            raise StoreError(f"the index of the run cannot be written: {error}; {remedy}") from error

    def read(self, name: str, stream: io.BufferedIOBase) -> Iterator[Finding]:
        """Read one file to its end and yield the findings of each record by itself.

        Raises:
            OSError: the file cannot be read.
        """
        self._files += 1
        name = name.encode(errors="replace").decode()
        for piece in read_documents(stream, max_record=self._max_record, on_bytes=self._count_bytes):
            if isinstance(piece, Document):
                findings = self._check(name, piece)
            else:
                self._unreadable += piece.severity is Severity.ERROR
                findings = iter((Origin(name, 0).finding(piece),))
            for finding in findings:
                self._severities[finding.severity] += 1
                yield finding

    def conclude(self) -> Iterator[Finding]:
        """Yield the findings about the records of all files together."""
        self._index.settle()
        for number, found in cross_check(self._index, unreadable=self._unreadable):
            self._severities[found.severity] += 1
            yield self._index.origin(number).finding(found)

    @property
    def summary(self) -> Summary:
        """The counts of the run so far."""
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

    def _check(self, name: str, document: Document) -> Iterator[Finding]:
        parsed = parse(document.data)
        if isinstance(parsed, Finding):
            self._unreadable += 1
            yield Origin(name, document.line).finding(parsed)
            return
        members = parsed.value
        kind = kind_of(members) if isinstance(members, dict) else flaw("not_an_object")
        if isinstance(members, dict) and isinstance(kind, str):
            self._records[kind] += 1
            today, old_pointers = in_current_spelling(kind, members)
            record = ForeignRecord(kind, today, not parsed.flaws and today is members, old_pointers)
            self._index.add_record(record, file=name, line=document.line, content=parsed.content)
            spelling = flaws_of_spelling(old_pointers)
            for found in chain(parsed.flaws, spelling, misfits_of(kind, today), flaws_of(record)):
                origin = Origin(name, document.line, kind, shown_id(id_of(kind, members)))
                yield origin.finding(replace(found, pointer=record.in_file(found.pointer)))
        elif isinstance(kind, Finding):
            self._unreadable += 1
            yield from map(Origin(name, document.line).finding, (*parsed.flaws, kind))

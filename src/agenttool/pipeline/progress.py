"""Progress updates of a running tool: clean them for the journal, and store partial results."""

from collections.abc import Mapping
from math import isnan
from typing import NamedTuple

from agenttool.errors import ToolFailure
from agenttool.pipeline.evidence import Progressed, counters
from agenttool.pipeline.services import PayloadAccess, PayloadReader
from agenttool.records import Json, ProgressStatus
from agenttool.results.messages import clean_message
from agenttool.results.persistence import PARTIAL_RESULT, native_payloads
from agenttool.results.redaction import Redactor, Scrubber, scrubbed_message


class Update(NamedTuple):
    """A progress update as the tool reported it."""

    message: str | None = None
    percent: float | None = None
    step: str | None = None
    partial: Json = None
    facts: Mapping[str, int | str] | None = None


def progress_of(
    update: Update, *, number: int, elapsed_ms: int | None, part: tuple[str, ...] | None, scrub: Scrubber | None
) -> Progressed:
    """Return an update without the secrets of its call; `part` has the ids of the stored partial result."""
    message, step, percent = _text(update.message, scrub), _text(update.step, scrub), update.percent
    return Progressed(
        number,
        ProgressStatus.RUNNING if update.partial is None else ProgressStatus.PARTIAL_RESULT,
        message,
        None if percent is None or isnan(percent) else min(max(percent, 0.0), 100.0),
        step,
        elapsed_ms,
        counters(update.facts, scrub) if update.facts else None,
        part,
    )


def _text(value: object, scrub: Scrubber | None) -> str | None:
    """Return a value as a message without secrets, control and invisible characters; only its ends are read."""
    return None if value is None else clean_message(scrubbed_message(str(value), scrub))


def store_partial_result(
    access: PayloadAccess, reader: PayloadReader, redactor: Redactor | None, part: object, scrubber: Scrubber | None
) -> tuple[str, ...] | None:
    """Start to store a scrubbed partial result and return its id; none if it cannot be stored."""
    if redactor is not None and redactor.is_whole:
        return None
    try:
        payloads = native_payloads(part, redactor=redactor, scrubber=scrubber, relation=PARTIAL_RESULT)
    except ToolFailure:
        return None
    for payload in payloads:
        if payload.ref.digest is not None:
            access.put_soon(reader, payload.data, payload.ref.digest)
    name = payloads[0].ref.id
    return None if name is None else (name,)

"""Does a result agree with itself: its status, its error flag, its error."""

from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw, Severity
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.records import OUTCOMES, ErrorClass, Json, JsonObject, ResultStatus

_PAIRS = frozenset((outcome.result_status, each) for outcome in OUTCOMES for each in outcome.error_classes)
_SUCCESS = str(ResultStatus.SUCCEEDED)
_ABORTED = frozenset({ResultStatus.SYNTHETIC_ERROR, ResultStatus.CANCELED})
_WANTED_OF_ERROR = ("error_code", "message", "recoverability")


def check_result(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that status, flag and error tell one story."""
    status, error = record.members.get("status"), record.members.get("error")
    if not isinstance(status, str) or (
        status == _SUCCESS and error is None and record.members.get("is_error") is False
    ):
        return
    known = ResultStatus(status)
    yield from _check_flag(record.members, known)
    if known in _ABORTED:
        yield from _check_abort_reason(record.members)
    if isinstance(error, dict):
        yield from _check_error(error, known)
    elif known.is_error or record.members.get("is_error") is True:
        yield _missing_class("/error")


def _check_flag(members: JsonObject, status: ResultStatus) -> Iterator[Flaw]:
    flag = members.get("is_error")
    truth = status.is_error
    if flag == truth or not (flag is None or isinstance(flag, bool)) or (flag is None and not truth):
        return
    named = str(status) if status.is_listed else "a status nobody listed"
    yield Flaw(
        message=f"is_error {'is missing' if flag is None else 'contradicts the status'}",
        expected=f"{str(truth).lower()}, because the status is {named}",
        advice=f"write {str(truth).lower()}" if status.is_listed else "use a listed status, or write true",
        pointer="/is_error",
        requirement="AT-RES-10" if status.is_listed else "AT-VER-07",
    )


def _check_abort_reason(members: JsonObject) -> Iterator[Flaw]:
    error = members.get("error")
    within = error.get("abort_reason") if isinstance(error, dict) else None
    if not members.get("abort_reason") and not within:
        yield Flaw(
            message="a result made up for a call that was ended from outside does not say why",
            expected="user_interruption, sibling_error, timeout, fallback or runtime_shutdown",
            advice="add abort_reason",
            pointer="/abort_reason",
            requirement="AT-RES-07",
        )


def _check_error(error: JsonObject, status: ResultStatus) -> Iterator[Flaw]:
    error_class = error.get("error_class")
    if not isinstance(error_class, str):
        yield _missing_class("/error/error_class")
    elif _is_listed(error_class) and status.is_listed and (status, error_class) not in _PAIRS:
        yield Flaw(
            message=f"{error_class!r} does not go with the status {str(status)!r}",
            expected=_expected_of(status),
            advice="see the table of outcomes: a status and an error class name one way to end",
            pointer="/error/error_class",
            requirement="G-09",
            severity=Severity.WARNING,
        )
    for name in _WANTED_OF_ERROR:
        if not error.get(name):
            yield Flaw(
                message="the error does not say enough to act on it",
                expected=f"a member {name!r}",
                advice=f"add {name!r}",
                pointer=f"/error/{name}",
                requirement="AT-ERR-01",
                severity=Severity.WARNING,
            )


def _missing_class(pointer: str) -> Flaw:
    return Flaw(
        message="an error result does not name its error class",
        expected="a member 'error' with an 'error_class'",
        advice="add it, so that programs can tell what went wrong",
        pointer=pointer,
        requirement="AT-RES-10",
    )


def _is_listed(error_class: Json) -> bool:
    return isinstance(error_class, str) and ErrorClass(error_class).is_listed


def _expected_of(status: ResultStatus) -> str:
    classes = sorted(error_class for known, error_class in _PAIRS if known == status)
    return f"one of {', '.join(classes)}" if classes else "no error"

"""Errors of the HTTP API, as problem documents (RFC 9457)."""

import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import TypedDict, Unpack

from starlette.responses import Response

from agenttool.codec import located
from agenttool.errors import ConfigError, KeyConflict, QuotaError, RecordError, StoreError
from agenttool.http.request_guard import problem_document
from agenttool.records import JsonObject
from agenttool.schema.explain import pointer_of

_NAMED = re.compile(r"(?:required|unknown) field `([^`]+)`")
_MAX_CURSOR_DIGITS = 18  # fits in 64 bits


class ProblemParts(TypedDict, total=False):
    """The members of a problem document that only some errors have.

    Attributes:
        pointer: a JSON pointer to the invalid member of the body, `?NAME` of the query, or `header:NAME`.
        reason: a stable code.
        answered_by: the approver who answered first.
    """

    pointer: str | None
    reason: str | None
    answered_by: str | None


class Problem(Exception):
    """A request that cannot be answered; reported as a problem document.

    Attributes:
        more: the members of `ProblemParts` that are given.
    """

    def __init__(
        self, status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None, **more: Unpack[ProblemParts]
    ) -> None:
        """Take the status, the message, the place of the error and further members."""
        super().__init__(detail)
        self.status = status
        self.headers = headers
        self.more: JsonObject = {name: str(value) for name, value in more.items() if value is not None}


class MissingRole(Problem):
    """A request of a caller that has none of the roles that it needs, with status 403."""

    def __init__(self, detail: str, roles: Collection[str]) -> None:
        """Take the message, and the roles of which one is needed."""
        super().__init__(HTTPStatus.FORBIDDEN, detail, reason="role")
        self.roles = roles


def problem_response(error: Exception) -> Response:
    """Return an error as a problem document."""
    problem = error if isinstance(error, Problem) else _as_problem(error)
    return problem_document(problem.status, str(problem), problem.more, problem.headers)


def _as_problem(error: Exception) -> Problem:
    """Return 503 for a store that fails, 429 for a caller that has too much, and 400 for any other error."""
    if isinstance(error, StoreError):
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), headers={"retry-after": "5"})
    if isinstance(error, QuotaError):
        return Problem(HTTPStatus.TOO_MANY_REQUESTS, str(error), reason="quota", headers={"retry-after": "5"})
    if isinstance(error, KeyConflict):
        return Problem(HTTPStatus.CONFLICT, str(error), reason="idempotency_conflict")
    pointer = error.pointer if isinstance(error, RecordError) else None
    return Problem(HTTPStatus.BAD_REQUEST, str(error), pointer=pointer)


REPORTED = (Problem, RecordError, ConfigError, QuotaError, StoreError)
"""The errors that a handler may raise because of a request."""


def parse_cursor(text: str | None) -> int | None:
    """Return the number in the cursor of a page; None without a cursor.

    Raises:
        Problem: it is no number.
    """
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_CURSOR_DIGITS:
        detail = f"no such cursor {text!r}; pass next_cursor of a page"
        raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer="?cursor")
    return int(text)


def invalid_member(error: Exception, known: Collection[str], *, prefix: str = "/") -> Problem:
    """Return the problem of a document that msgspec rejects, with a pointer; `known` are the valid members."""
    detail, steps = located(error)
    steps += _NAMED.findall(detail)
    pointer = prefix + pointer_of(steps)[1:] if steps else None
    is_unknown = "unknown field" in detail and len(steps) == 1
    remedy = f"use one of {', '.join(sorted(known))}" if is_unknown and known else "correct it"
    return Problem(HTTPStatus.BAD_REQUEST, f"{detail}; {remedy}", pointer=pointer)


def draining() -> Problem:
    """Return the problem of a request that a stopping server does not answer."""
    detail = "the server is stopping; send the request to the next one"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"retry-after": "2", "connection": "close"})

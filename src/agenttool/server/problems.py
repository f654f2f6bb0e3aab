"""Errors as problem documents (RFC 9457): what was wrong, where, and what to do."""

from http import HTTPStatus

from starlette.responses import Response

from agenttool.codec import json_bytes
from agenttool.errors import RecordError, StoreError
from agenttool.records import JsonObject


class Problem(Exception):
    """A request that cannot be answered as it stands."""

    def __init__(self, status: HTTPStatus, detail: str, *, pointer: str | None = None) -> None:
        """Take what to say of it; the pointer leads to what was wrong in the body."""
        super().__init__(detail)
        self.status = status
        self.pointer = pointer


def problem_of(error: Exception) -> Response:
    """Tell an error as its document."""
    status = _status_of(error)
    told: JsonObject = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": str(error)}
    pointer = error.pointer if isinstance(error, Problem | RecordError) else None
    if pointer is not None:
        told["pointer"] = pointer
    return Response(json_bytes(told), status.value, media_type="application/problem+json")


def _status_of(error: Exception) -> HTTPStatus:
    """Tell whose fault it is: a store that fails is not the one who asks."""
    if isinstance(error, Problem):
        return error.status
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, StoreError) else HTTPStatus.BAD_REQUEST

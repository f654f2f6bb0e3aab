"""The exceptions of this package, in one tree.

AgentToolError
├── ToolFailure     ends one call; carries a `ToolError` record; never leaves `Runtime.call`
├── CredentialMissing  a credential cannot be had; ends the call that needs it
├── ConfigError     the deployment is wrong; raised before the first call
│   └── KeyConflict    an idempotency key was used for another call
├── CallerError     the client of a call cannot be asked for input
├── RecordError     a document does not fit its schema; names the JSON pointer
├── GatewayError    a server refused a request of the HTTP client, or did not answer
├── QuotaError      a caller has too many of something, such as open calls
├── ReplyError      a model's reply is of another format, an error, or incomplete
└── StoreError      a store failed to read or write
"""

from collections.abc import Mapping
from typing import cast

from agenttool.records.error import ToolError


class AgentToolError(Exception):
    """The base class of all exceptions of this package."""


class ToolFailure(AgentToolError):
    """Ends one call. The pipeline converts it into a result; callers of a tool never see it."""

    def __init__(self, error: ToolError, *, remedy: str | None = None) -> None:
        """Take the error of the result, which a model reads, and what an operator can change, which only the log has.

        Raises:
            TypeError: it is not a `ToolError`; to fail with a message alone, raise any other exception.
        """
        if not isinstance(cast("object", error), ToolError):
            found = type(error).__name__
            raise TypeError(
                f"ToolFailure takes a ToolError, got a {found}; to fail with words, raise ValueError(words)"
            )
        super().__init__(error.message or str(error.error_class))
        self.error = error
        self.remedy = remedy


class CredentialMissing(AgentToolError):
    """A credential cannot be had. The message has the cause and the remedy, and never the secret."""


class CallerError(AgentToolError):
    """The client of a call cannot be asked, or gave no usable reply; the message says why."""


class ConfigError(AgentToolError):
    """The configuration is invalid; raised before the first call."""


class KeyConflict(ConfigError):
    """An idempotency key was used before, for another tool or other arguments."""


class RecordError(AgentToolError):
    """A document does not fit its schema.

    Attributes:
        pointer: where, as a JSON pointer into the document; the empty string is the document itself.
    """

    def __init__(self, message: str, *, pointer: str = "") -> None:
        """Take the message and the place of the error."""
        super().__init__(f"{message} (at {pointer!r})" if pointer else message)
        self.pointer = pointer


class ReplyError(AgentToolError):
    """A model's reply cannot be used: it has another format, it is an error, or its stream ended early."""


class GatewayError(AgentToolError):
    """A server refused a request of `agenttool.client`, or did not answer it.

    Attributes:
        detail: what was wrong, and what to do.
        status: of the response; None if there was none, or if it cannot be read.
        pointer: the place in the request: a JSON pointer into the body, `?name` or `header:name`.
        reason: a stable code, such as `answered` or `idempotency_conflict`.
        members: the complete problem document.
        invocation_id: the call that the request waited for; None if there is none, or its id is not known.
        idempotency_key: the key that the call was made with; a repeated request with it returns the same call.
    """

    def __init__(  # noqa: PLR0913 -- one for each attribute
        self,
        detail: str,
        *,
        status: int | None = None,
        pointer: str | None = None,
        reason: str | None = None,
        members: Mapping[str, object] | None = None,
        invocation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Take the members of a problem document, and the call that the request was about."""
        place = f" (at {pointer!r})" if pointer else ""
        super().__init__(detail + place if status is None else f"{status}: {detail}{place}")
        self.detail, self.status, self.pointer, self.reason = detail, status, pointer, reason
        self.members = members or {}
        self.invocation_id, self.idempotency_key = invocation_id, idempotency_key


class QuotaError(AgentToolError):
    """A caller has as many of something as one caller may have."""

    def __init__(self, items: str, limit: int) -> None:
        """Take what it has, and how many."""
        super().__init__(f"this caller has {limit} {items}, which is the limit; end some, or wait until some end")


class StoreError(AgentToolError):
    """A store failed to read or write."""


def words_of(error: BaseException) -> str:
    """Return the message of an exception, also if its `__str__` raises."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 -- `__str__` is foreign code and may raise anything
        return "it cannot even say what went wrong"

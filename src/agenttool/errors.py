"""Every exception of ours, in one tree.

AgentToolError
├── ToolFailure     ends one call; carries a `ToolError` record; never leaves `Runtime.call`
├── ConfigError     the deployment is wrong; raised before the first call
├── RecordError     a document does not fit its schema; names the JSON pointer
└── StoreError      a store could not keep its promise
"""

from typing import cast

from agenttool.records import ToolError


class AgentToolError(Exception):
    """The root: whoever catches this catches everything of ours and nothing else."""


class ToolFailure(AgentToolError):
    """Ends one call. Turned into a result in one place; callers of a tool never see it."""

    def __init__(self, error: ToolError) -> None:
        """Take the error that the result will carry.

        Raises:
            TypeError: it is no `ToolError`; to fail with words alone, raise any other exception.
        """
        if not isinstance(cast("object", error), ToolError):
            told = type(error).__name__
            raise TypeError(f"ToolFailure takes a ToolError, got a {told}; to fail with words, raise ValueError(words)")
        super().__init__(error.message or str(error.error_class))
        self.error = error


class ConfigError(AgentToolError):
    """The deployment is wrong, and nothing has run yet."""


class RecordError(AgentToolError):
    """A document does not fit its schema.

    Attributes:
        pointer: where, as a JSON pointer into the document; the empty string is the document itself.
    """

    def __init__(self, message: str, *, pointer: str = "") -> None:
        """Take what was wrong and what to do, and where."""
        super().__init__(f"{message} (at {pointer!r})" if pointer else message)
        self.pointer = pointer


class StoreError(AgentToolError):
    """A store could not keep its promise."""


def words_of(error: BaseException) -> str:
    """Read an exception's own words; some raise when asked."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 -- somebody else's code, asked only out of politeness
        return "it cannot even say what went wrong"

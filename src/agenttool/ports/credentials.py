"""The port of credentials: where a secret comes from, and the form in which a tool gets it."""

from dataclasses import dataclass, field
from typing import Protocol

from agenttool.errors import CredentialMissing


class Secret:
    """A credential that is leased to one call. Only `value` shows it, and only while the call runs."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value: str | None = value

    @property
    def value(self) -> str:
        """The secret text. It is masked in the results, errors, progress and records of the call.

        Raises:
            CredentialMissing: the call has ended.
        """
        if self._value is None:
            raise CredentialMissing(
                f"the lease of the credential {self.name!r} ended with its call; read it in each call"
            )
        return self._value

    def reveal(self) -> str:
        """Return `value`."""
        return self.value

    def revoke(self) -> None:
        """Forget the value, because the call has ended."""
        self._value = None

    def __repr__(self) -> str:
        """Show the name only; `str` and formatting do the same."""
        return f"Secret({self.name!r})"

    def __reduce__(self) -> str:
        """Refuse to be copied or pickled.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"the credential {self.name!r} cannot be copied or pickled; pass its name instead")


@dataclass(frozen=True, slots=True)
class FetchedCredential:
    """A value, and for how many seconds it may be used before it is fetched again."""

    value: str = field(repr=False)
    ttl_s: float


class CredentialProvider(Protocol):
    """Fetches one credential. No message of it may contain the secret."""

    @property
    def name(self) -> str:
        """The name by which tools declare it."""
        ...

    @property
    def kind(self) -> str:
        """Where it comes from, in one word, such as `env`."""
        ...

    @property
    def place(self) -> str:
        """Where it is configured."""
        ...

    @property
    def is_per_actor(self) -> bool:
        """Whether each actor has its own."""
        ...

    def fault(self) -> str | None:
        """Return why no call can have it, and the remedy after a semicolon; none if some call may."""
        ...

    def refusal(self, actor: str | None, /) -> str | None:
        """Return why calls of an actor cannot have it, and the remedy, as far as that is known without a wait."""
        ...

    async def fetch(self, actor: str | None, /) -> FetchedCredential:
        """Return the secret for calls of an actor.

        Raises:
            CredentialMissing: it cannot be had; the message has the cause and the remedy.
        """
        ...

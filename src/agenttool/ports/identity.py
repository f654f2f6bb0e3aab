"""The authenticated identity behind a request: a person, a program or an agent, its tenant and its roles."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from agenttool.records import JsonObject

DEFAULT_TENANT = "default"
"""The tenant of a server without tenants, and of requests that name none."""

GATEWAY_ROLE = "gateway:"
"""How the roles of a key or token begin in rules and records, where `[roles]` of the settings has other names."""

LOCAL = "local"
"""The subject of a program on this machine that presents no credentials."""


class AccessRole(StrEnum):
    """What an identity may do within its tenant."""

    CALLER = "caller"
    """Makes calls, and reads its own."""
    APPROVER = "approver"
    """Answers approvals, and reads calls."""
    OPERATOR = "operator"
    """Manages sources, rules, keys and sessions, cancels calls, and reads everything."""
    AUDITOR = "auditor"
    """Reads everything and changes nothing."""


class IdentityKind(StrEnum):
    """How an identity was authenticated."""

    NONE = "none"
    """Not at all; it has no roles, and only routes for everyone serve it."""
    LOCAL = "local"
    """By the address of this machine only; it presented no credentials."""
    KEY = "key"
    JWT = "jwt"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated identity.

    Attributes:
        subject: its name, which rules match as the actor of its calls.
        kind: how it was authenticated; it has no default, because a local program needs no credentials.
        key_id: the API key, or the key behind a session; none for other kinds.
    """

    subject: str
    kind: IdentityKind
    tenant: str = DEFAULT_TENANT
    roles: frozenset[AccessRole] = frozenset()
    key_id: str | None = None

    @property
    def role_names(self) -> tuple[str, ...]:
        """Its roles as rules and records name them: `gateway:caller`."""
        return _role_names(self.roles)

    def has(self, *roles: AccessRole) -> bool:
        """Return whether it has one of some roles."""
        return not self.roles.isdisjoint(roles)

    def members(self) -> JsonObject:
        """Return it as it is recorded with a decision."""
        found: JsonObject = {"subject": self.subject, "kind": self.kind.value, "tenant": self.tenant}
        return found if self.key_id is None else {**found, "key_id": self.key_id}


@cache
def _role_names(roles: frozenset[AccessRole]) -> tuple[str, ...]:
    return tuple(sorted(GATEWAY_ROLE + role for role in roles))


def name_of_actor(actor: str | Principal | None) -> str | None:
    """Return the name of who makes a call."""
    return actor.subject if isinstance(actor, Principal) else actor

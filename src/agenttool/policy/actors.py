"""The roles and teams of actors, as settings list them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, lru_cache

from agenttool.config.table import suggestion
from agenttool.errors import ConfigError
from agenttool.policy.rules import Rule
from agenttool.policy.targets import UNKNOWN_CALLER, Caller
from agenttool.policy.wildcards import fits
from agenttool.ports.identity import GATEWAY_ROLE, AccessRole

Members = Mapping[str, tuple[str, ...]]
"""The actors of each group; `*` in an actor matches any characters."""

_GATEWAY_ROLES = tuple(GATEWAY_ROLE + role for role in AccessRole)

MAX_CALLERS = 10_000
"""How many callers are cached."""


@dataclass(frozen=True)
class ActorGroups:
    """Which actors have which roles and are in which teams.

    Attributes:
        user: the groups of the user's own settings; allows of the user count no other members. None for these groups.
    """

    roles: Members = field(default_factory=dict[str, tuple[str, ...]])
    teams: Members = field(default_factory=dict[str, tuple[str, ...]])
    user: "ActorGroups | None" = None

    def caller(self, actor: str | None, granted: tuple[str, ...] | None = None) -> Caller:
        """Return an actor with its roles and teams, and those that its key grants; without a name it is not known."""
        return self._known(actor, granted) if actor else UNKNOWN_CALLER

    @cached_property
    def _known(self) -> Callable[[str, tuple[str, ...] | None], Caller]:
        """The function that returns a named caller; callers are cached, because most make several calls."""
        return lru_cache(maxsize=MAX_CALLERS)(self._make)

    def _make(self, actor: str, granted: tuple[str, ...] | None) -> Caller:
        user = None if self.user is None else self.user.caller(actor)
        roles, teams = _groups_of(actor, self.roles), _groups_of(actor, self.teams)
        return Caller(actor, roles, teams, user=user, granted=granted)

    def check(self, rules: Iterable[Rule]) -> None:
        """Check that the roles, teams and actors of rules exist.

        Any actor is valid if no role or team lists one.

        Raises:
            ConfigError: some do not; the message names each rule.
        """
        actors = [each for members in (self.roles, self.teams) for listed in members.values() for each in listed]
        problems = [
            f"{rule.place}: rule {rule.ref!r} names the {kind} {name!r}, which does not exist; "
            + _remedy(name, kind, known)
            for rule in rules
            for groups in (self.user if rule.is_user_allow and self.user is not None else self,)
            for kind, names, known in (
                ("role", [each for each in rule.roles if not each.startswith(GATEWAY_ROLE)], [*groups.roles]),
                ("role", [each for each in rule.roles if each.startswith(GATEWAY_ROLE)], [*_GATEWAY_ROLES]),
                ("team", rule.teams, [*groups.teams]),
                ("actor", rule.actors if actors else (), actors),
            )
            for name in names
            if not any(fits(name, each) or fits(each, name) for each in known)
        ]
        reserved = (name for name in self.roles if name.startswith(GATEWAY_ROLE))
        problems += [
            f"[roles] lists {name!r}, but {GATEWAY_ROLE!r} begins a role of keys; rename it" for name in reserved
        ]
        if problems:
            raise ConfigError("\n".join(problems))


def _groups_of(actor: str, members: Members) -> frozenset[str]:
    return frozenset(group for group, actors in members.items() if any(fits(each, actor) for each in actors))


def _remedy(name: str, kind: str, known: list[str]) -> str:
    close = get_close_matches(name, [*known, *_GATEWAY_ROLES], 1) if kind == "role" else []
    if known or close:
        return suggestion(name, close or known)
    return f'add a table [{kind}s] with {name} = ["ACTOR"]'

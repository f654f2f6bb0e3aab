"""The roles and teams of actors, as settings list them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property

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
"""How many callers are cached; then all are looked up again."""


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
        if not actor:
            return UNKNOWN_CALLER
        found = self._callers.get((actor, granted))
        if found is None:
            if len(self._callers) >= MAX_CALLERS:
                self._callers.clear()
            roles, teams = _groups_of(actor, self.roles), _groups_of(actor, self.teams)
            found = Caller(actor, roles, teams, granted=granted)
            if self.user is not None:
                found = replace(found, user=self.user.caller(actor))
            self._callers[actor, granted] = found
        return found

    @cached_property
    def _callers(self) -> dict[tuple[str, tuple[str, ...] | None], Caller]:
        return {}

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

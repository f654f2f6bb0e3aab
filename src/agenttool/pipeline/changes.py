"""What the owner of a runtime says that changed, as words become policy and circumstances."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict, cast

from agenttool.errors import ConfigError
from agenttool.pipeline.asked import names_in
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule, RuleBook
from agenttool.policy.votes import PermissionMode
from agenttool.ports.surfacing import Circumstances, ModelCapabilities, ProviderState


class Changes(TypedDict, total=False):
    """What can change under a surface; what is not named stays as it is.

    `rules` are all rules that hold from now on; the others are as in `Circumstances`.
    """

    rules: Iterable[Rule]
    mode: str
    interactive: bool
    workspace: Iterable[str]
    credentials: Iterable[str]
    gates: Iterable[str]
    skills: Iterable[str] | None
    peers: Iterable[str] | None
    providers: Mapping[str, str]
    has_browser: bool | None
    allows_shell: bool | None
    model: ModelCapabilities | None


CAUSES = {
    "rules": "policy",
    "mode": "mode",
    "interactive": "mode",
    "workspace": "workspace",
    "credentials": "credentials",
    "gates": "feature gates",
    "skills": "active skill",
    "peers": "peer agent",
    "providers": "provider",
    "has_browser": "browser session",
    "allows_shell": "platform",
    "model": "model capability",
}
"""What each change is called where a surface says why it was made."""


def causes_of(changes: Changes) -> tuple[str, ...]:
    """Name what changes.

    Raises:
        ConfigError: nothing of the sort can change.
    """
    unknown = sorted(changes.keys() - CAUSES.keys())
    if unknown:
        raise ConfigError(f"nothing called {unknown[0]!r} can change here; use {', '.join(CAUSES)}")
    return tuple(dict.fromkeys(CAUSES[name] for name in changes))


def changed_policy(policy: Policy, changes: Changes) -> Policy:
    """Give the policy that holds from now on.

    Raises:
        ConfigError: a rule is none, two have one name, or there is no such mode.
    """
    book, mode, workspace = policy.book, policy.mode, policy.workspace
    if "rules" in changes:
        rules = list(changes["rules"])
        if not all(isinstance(cast("object", each), Rule) for each in rules):
            raise ConfigError("rules must hold Rules only; read them with `read_rules`, or make Rules of them")
        book = RuleBook(rules)
    if "mode" in changes:
        if changes["mode"] not in list(PermissionMode):
            raise ConfigError(
                f"no permission mode is called {changes['mode']!r}; use one of {', '.join(PermissionMode)}"
            )
        mode = PermissionMode(changes["mode"])
    if "workspace" in changes:
        roots = names_in(changes["workspace"], "workspace")
        resolve = workspace.resolve
        workspace = dataclasses.replace(workspace, roots=tuple(map(resolve, roots)) if resolve else roots)
    interactive = changes.get("interactive", policy.interactive)
    return dataclasses.replace(policy, book=book, mode=mode, interactive=interactive, workspace=workspace)


def changed_circumstances(circumstances: Circumstances, changes: Changes) -> Circumstances:
    """Give the circumstances that hold from now on.

    Raises:
        ConfigError: one of them is of another kind than it should be.
    """
    given = cast("Mapping[str, object]", changes)
    read = {name: reader(given[name], name) for name, reader in _READERS.items() if name in given}
    return dataclasses.replace(circumstances, **read)  # pyright: ignore[reportArgumentType] -- each by its own reader


def _names(given: object, name: str) -> frozenset[str]:
    return frozenset(names_in(cast("Iterable[str]", given), name))


def _names_or_none(given: object, name: str) -> frozenset[str] | None:
    return None if given is None else _names(given, name)


def _yes_or_no(given: object, name: str) -> bool | None:
    if given is not None and not isinstance(given, bool):
        raise ConfigError(f"{name} must be true, false or none, got {given!r}; use one of them")
    return given


def _states(given: object, name: str) -> dict[str, ProviderState]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name} must be states by namespace, got {given!r}; write {{'github': 'connecting'}}")
    states = cast("Mapping[str, object]", given)
    strangers = [state for state in states.values() if state not in list(ProviderState)]
    if strangers:
        raise ConfigError(f"no provider can be {strangers[0]!r}; say {', '.join(ProviderState)}")
    return {name: ProviderState(cast("str", state)) for name, state in states.items()}


def _model(given: object, name: str) -> ModelCapabilities | None:
    if given is not None and not isinstance(given, ModelCapabilities):
        raise ConfigError(f"{name} must be ModelCapabilities, got a {type(given).__name__}; make some of it")
    return given


_READERS: dict[str, Callable[[object, str], object]] = {
    "credentials": _names,
    "gates": _names,
    "skills": _names_or_none,
    "peers": _names_or_none,
    "providers": _states,
    "has_browser": _yes_or_no,
    "allows_shell": _yes_or_no,
    "model": _model,
}

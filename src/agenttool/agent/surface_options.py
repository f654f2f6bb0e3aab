"""Validate what callers pass to `surface(...)` and `change(...)`."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict, cast

from agenttool.call.plan import is_text, names_in
from agenttool.catalog.surface import SurfaceRequest
from agenttool.errors import ConfigError
from agenttool.policy.decide import Policy
from agenttool.policy.rule_settings import RuleOption, rules_in
from agenttool.policy.rules import RuleBook
from agenttool.policy.votes import PermissionMode
from agenttool.ports.surfacing import Circumstances, ModelCapabilities, ProviderState, Role
from agenttool.records import SurfaceScope


class SurfaceContext(TypedDict, total=False):
    """The context of a surface.

    Attributes:
        role: the role that the surface is for; it limits the tools.
        model: the model that the surface is for. Default: that of the runtime.
        tool_choice: `auto`, `none`, `required`, or the name of a tool.
        refs: the names of the session, task or sandbox, which are recorded.
        reason: why the surface is created, which is recorded.
    """

    role: Role | None
    model: ModelCapabilities | None
    tool_choice: str
    refs: Iterable[str]
    reason: str | None


def surface_request(scope: object, only: Iterable[str] | None, context: SurfaceContext) -> SurfaceRequest:
    """Return the request of a surface from the arguments of a caller.

    Raises:
        ConfigError: an argument is unknown or has the wrong type.
    """
    unknown = sorted(context.keys() - SurfaceContext.__annotations__.keys())
    if unknown:
        raise ConfigError(f"a surface takes no {unknown[0]!r}; use {', '.join(SurfaceContext.__annotations__)}")
    given = cast("Mapping[str, object]", context)
    role, model = given.get("role"), given.get("model")
    if role is not None and not isinstance(role, Role):
        raise ConfigError(f"role must be a Role, got {role!r}; create one with Role(name=...)")
    if model is not None and not isinstance(model, ModelCapabilities):
        raise ConfigError(f"model must be ModelCapabilities, got {model!r}; create one with ModelCapabilities(...)")
    for name in ("tool_choice", "reason"):
        if given.get(name) is not None and not is_text(given[name]):
            raise ConfigError(f"{name} must be text, got {given[name]!r}; correct it, or leave it out")
    if not is_text(scope) or not scope:
        raise ConfigError(f"scope must be a word, got {scope!r}; use one of {', '.join(SurfaceScope)}")
    return SurfaceRequest(
        scope=SurfaceScope(scope),
        only=None if only is None else frozenset(names_in(only, "only")),
        role=role,
        model=model,
        tool_choice=context.get("tool_choice", "auto"),
        refs=names_in(context.get("refs", ()), "refs"),
        reason=context.get("reason"),
    )


class Changes(TypedDict, total=False):
    """The changes of policy and circumstances; a value that is left out does not change.

    Attributes:
        rules: the new rules; they replace all rules.
        mode: the permission mode, such as `read_only`.
        interactive: whether an approver can be asked.
        workspace: the folders that rules about paths refer to.
        credentials: the credentials that can be leased.
        gates: the open feature gates.
        skills: the active skills.
        peers: the reachable peer agents.
        providers: the states of servers by namespace: `ready`, `connecting` or `unavailable`.
        has_browser: whether a browser session exists.
        allows_shell: whether commands and code may run.
    """

    rules: Iterable[RuleOption]
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
"""The name of each change in the recorded reason of a surface."""


def causes_of(changes: Changes) -> tuple[str, ...]:
    """Return the names of the changes.

    Raises:
        ConfigError: a change is unknown.
    """
    unknown = sorted(changes.keys() - CAUSES.keys())
    if unknown:
        raise ConfigError(f"nothing called {unknown[0]!r} can change here; use {', '.join(CAUSES)}")
    return tuple(dict.fromkeys(CAUSES[name] for name in changes))


def changed_policy(policy: Policy, changes: Changes) -> Policy:
    """Return the policy with the changes applied.

    Raises:
        ConfigError: two rules have one name, or the mode is unknown.
    """
    book, mode, workspace = policy.book, policy.mode, policy.workspace
    if "rules" in changes:
        book = RuleBook(rules_in(changes["rules"]))
    if "mode" in changes:
        if changes["mode"] not in list(PermissionMode):
            raise ConfigError(
                f"no permission mode is called {changes['mode']!r}; use one of {', '.join(PermissionMode)}"
            )
        mode = PermissionMode(changes["mode"])
    if "workspace" in changes:
        roots = names_in(changes["workspace"], "workspace")
        resolve = workspace.resolve
        workspace = dataclasses.replace(workspace, roots=tuple(map(resolve, roots)) if resolve else roots, user=None)
    interactive = changes.get("interactive", policy.interactive)
    return dataclasses.replace(policy, book=book, mode=mode, interactive=interactive, workspace=workspace)


def changed_circumstances(circumstances: Circumstances, changes: Changes) -> Circumstances:
    """Return the circumstances with the changes applied.

    Raises:
        ConfigError: a value has the wrong type.
    """
    given = cast("Mapping[str, object]", changes)
    values = {name: reader(given[name], name) for name, reader in _READERS.items() if name in given}
    return dataclasses.replace(circumstances, **values)  # pyright: ignore[reportArgumentType] -- each reader checks its type


def _names(given: object, name: str) -> frozenset[str]:
    return frozenset(names_in(cast("Iterable[str]", given), name))


def _names_or_none(given: object, name: str) -> frozenset[str] | None:
    return None if given is None else _names(given, name)


def _flag(given: object, name: str) -> bool | None:
    if given is not None and not isinstance(given, bool):
        raise ConfigError(f"{name} must be true, false or none, got {given!r}; use one of them")
    return given


def _provider_states(given: object, name: str) -> dict[str, ProviderState]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name} must be states by namespace, got {given!r}; write {{'github': 'connecting'}}")
    states = cast("Mapping[str, object]", given)
    unknown = [state for state in states.values() if state not in list(ProviderState)]
    if unknown:
        raise ConfigError(f"no provider can be {unknown[0]!r}; use {', '.join(ProviderState)}")
    return {namespace: ProviderState(cast("str", state)) for namespace, state in states.items()}


def _model(given: object, name: str) -> ModelCapabilities | None:
    if given is not None and not isinstance(given, ModelCapabilities):
        raise ConfigError(f"{name} must be ModelCapabilities, got a {type(given).__name__}; create one")
    return given


_READERS: dict[str, Callable[[object, str], object]] = {
    "credentials": _names,
    "gates": _names,
    "skills": _names_or_none,
    "peers": _names_or_none,
    "providers": _provider_states,
    "has_browser": _flag,
    "allows_shell": _flag,
    "model": _model,
}

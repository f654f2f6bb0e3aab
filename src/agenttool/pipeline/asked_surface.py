"""The surface that somebody asks for, as it comes."""

from collections.abc import Iterable, Mapping
from typing import TypedDict, cast

from agenttool.catalog.request import SurfaceRequest
from agenttool.errors import ConfigError
from agenttool.pipeline.asked import is_text, names_in
from agenttool.ports.surfacing import ModelCapabilities, Role
from agenttool.records import SurfaceScope


class SurfaceContext(TypedDict, total=False):
    """What a context may say of itself.

    `role` is who the surface is for, `model` which model; if left out, the one that the runtime was told of.
    `tool_choice` is `auto`, `none`, `required`, or the name of a tool. `refs` are those of the session, task or
    sandbox that it is for, and `reason` says why it is made.
    """

    role: Role | None
    model: ModelCapabilities | None
    tool_choice: str
    refs: Iterable[str]
    reason: str | None


def surface_request(scope: object, only: Iterable[str] | None, context: SurfaceContext) -> SurfaceRequest:
    """Read what somebody asks of a surface.

    Raises:
        ConfigError: a word of it is not what it should be.
    """
    unknown = sorted(context.keys() - SurfaceContext.__annotations__.keys())
    if unknown:
        raise ConfigError(f"a surface takes no {unknown[0]!r}; use {', '.join(SurfaceContext.__annotations__)}")
    given = cast("Mapping[str, object]", context)
    role, model = given.get("role"), given.get("model")
    if role is not None and not isinstance(role, Role):
        raise ConfigError(f"role must be a Role, got {role!r}; make one with Role(name=...)")
    if model is not None and not isinstance(model, ModelCapabilities):
        raise ConfigError(f"model must be ModelCapabilities, got {model!r}; make some of it")
    for name in ("tool_choice", "reason"):
        if given.get(name) is not None and not is_text(given[name]):
            raise ConfigError(f"{name} must be text, got {given[name]!r}; leave it out, or correct it")
    return SurfaceRequest(
        scope=scope_of(scope),
        only=chosen_of(only),
        role=role,
        model=model,
        tool_choice=context.get("tool_choice", "auto"),
        refs=names_in(context.get("refs", ()), "refs"),
        reason=context.get("reason"),
    )


def scope_of(scope: object) -> SurfaceScope:
    """Read the scope of a surface.

    Raises:
        ConfigError: it is no word.
    """
    if not is_text(scope) or not scope:
        raise ConfigError(f"scope must be a word, got {scope!r}; use one of {', '.join(SurfaceScope)}")
    return SurfaceScope(scope)


def chosen_of(only: Iterable[str] | None) -> frozenset[str] | None:
    """Read which tools a surface is asked for.

    Raises:
        ConfigError: it is no list of names.
    """
    return None if only is None else frozenset(names_in(only, "only"))

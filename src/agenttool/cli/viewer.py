"""For whom a surface is made, in the words of the command line: a role, a kind of model, a sub-agent."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from agenttool.assemble import Runtime
from agenttool.errors import ConfigError
from agenttool.ports.surfacing import ModelCapabilities, Role
from agenttool.records import ToolSurface

_FLAGS = ("strict_schemas", "parallel_calls", "deferred_refs")
_MEDIA = "media:"

Whom = Annotated[
    list[str] | None,
    typer.Option("--as", metavar="WHOM", help="role=PATTERN,… or model=WORD,… (what it supports) or sub-agent"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who would see the tools; anybody, if nothing is said."""

    role: Role | None = None
    model: ModelCapabilities | None = None
    is_sub_agent: bool = False

    async def surface(self, rt: Runtime) -> tuple[Runtime, ToolSurface]:
        """Give the surface that they would get, and the runtime that it belongs to."""
        surface = await rt.surface(role=self.role, model=self.model)
        if not self.is_sub_agent:
            return rt, surface
        child = rt.child(surface)
        return child, await child.surface(role=self.role, model=self.model)


def viewer_in(words: Iterable[str] | None) -> Viewer:
    """Read for whom a surface is wanted.

    Raises:
        ConfigError: a word says nothing of the sort.
    """
    role: Role | None = None
    model: ModelCapabilities | None = None
    is_sub_agent = False
    for word in words or ():
        kind, _, said = word.partition("=")
        parts = tuple(part for each in said.split(",") if (part := each.strip()))
        if kind == "role" and parts:
            role = Role(name=said, tools=parts)
        elif kind == "model":
            model = _model(parts)
        elif word == "sub-agent":
            is_sub_agent = True
        else:
            raise ConfigError(f"--as does not know {word!r}; use role=PATTERN, model=WORD or sub-agent")
    return Viewer(role=role, model=model, is_sub_agent=is_sub_agent)


def _model(words: tuple[str, ...]) -> ModelCapabilities:
    unknown = [each for each in words if each not in _FLAGS and not each.startswith(_MEDIA)]
    if unknown:
        raise ConfigError(f"no model supports {unknown[0]!r}; use {', '.join(_FLAGS)} or media:image and the like")
    media = frozenset(each.removeprefix(_MEDIA) for each in words if each.startswith(_MEDIA))
    return ModelCapabilities(
        strict_schemas="strict_schemas" in words,
        parallel_calls="parallel_calls" in words,
        deferred_refs="deferred_refs" in words,
        media=media,
    )

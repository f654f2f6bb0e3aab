"""Markers for arguments: `Annotated[str, Sensitive]`, at a parameter or inside a model.

This module imports no third-party library, so that `agenttool` can export the markers without importing pydantic.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agenttool.records import Json, JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class Marker:
    """Metadata for `Annotated` that becomes a keyword of the generated schema, however deeply the type is nested."""

    keyword: str
    value: Json = True

    def __get_pydantic_json_schema__(self, core: object, handler: Callable[[object], JsonObject]) -> JsonObject:
        """Add the keyword; pydantic calls this method by its name."""
        return {**handler(core), self.keyword: self.value}


Internal = Marker("visibility", "internal")
"""The model neither sees nor sets the field; a default, a hook or the runtime does."""

Sensitive = Marker("x-sensitive")
"""The value is redacted from everything that leaves the call, and the default is in no schema."""

PathArg = Marker("x-agenttool", "path")
"""A file system path, for rules about paths; `pathlib.Path` needs no marker."""

UrlArg = Marker("x-agenttool", "url")
"""A URL, for rules about URLs; pydantic's URL types need no marker."""

CommandArg = Marker("x-agenttool", "command")
"""A command line, for rules about commands. A field is at most one of path, URL and command."""

Inject = Marker("x-inject")
"""The runtime fills the parameter with the object that `Runtime.open(provide=…)` has for its type; no schema has it."""

MARKERS = (Internal, Sensitive, PathArg, UrlArg, CommandArg)

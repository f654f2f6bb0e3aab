"""What a type cannot say about an argument: `Annotated[str, Sensitive]`, at a parameter or inside a model.

Knows no library, so the public door can offer these words without loading the one that reads signatures.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agenttool.records import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Marker:
    """A word for `Annotated`; it reaches the generated schema as a keyword, however deep the type is nested."""

    keyword: str
    value: Json = True

    def __get_pydantic_json_schema__(self, core: object, handler: Callable[[object], JsonObject]) -> JsonObject:
        """Leave the mark; called by the library that reads signatures, whose name for this it is."""
        return {**handler(core), self.keyword: self.value}


Internal = Marker("visibility", "internal")
"""The model neither sees nor sets it; a default, a hook or the runtime does."""

Sensitive = Marker("x-sensitive")
"""Its value is redacted from everything that leaves the call, and its default is told to nobody."""

PathArg = Marker("x-agenttool", "path")
"""A path of the file system, for rules about paths; `pathlib.Path` needs no mark."""

UrlArg = Marker("x-agenttool", "url")
"""An address, for rules about URLs; pydantic's URL types need no mark."""

CommandArg = Marker("x-agenttool", "command")
"""The text of a command, for rules about commands. A field is one of path, URL and command."""

MARKERS = (Internal, Sensitive, PathArg, UrlArg, CommandArg)

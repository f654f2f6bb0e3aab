"""What an argument is, told by its name or by a hint in its schema: a path, a command, an address, a resource."""

import re

from agenttool.records import ClosedEnum, JsonObject


class MatchingField(ClosedEnum):
    """What rules can look at inside the arguments of a call."""

    PATH = "path"
    COMMAND = "command"
    URL = "url"
    RESOURCE = "resource"


_FORMATS = {
    "path": MatchingField.PATH,
    "file-path": MatchingField.PATH,
    "directory-path": MatchingField.PATH,
    "uri": MatchingField.URL,
    "iri": MatchingField.URL,
    "uri-reference": MatchingField.URL,
    "iri-reference": MatchingField.URL,
}

# Last words of an argument's name, in snake case, singular.
_NAMES = {
    **dict.fromkeys(("path", "file", "filename", "filepath", "directory", "dir", "folder", "cwd"), MatchingField.PATH),
    **dict.fromkeys(("pathname", "dirname"), MatchingField.PATH),
    **dict.fromkeys(("command", "cmd", "argv"), MatchingField.COMMAND),
    **dict.fromkeys(("url", "uri", "href"), MatchingField.URL),
    **dict.fromkeys(("resource", "resource_id"), MatchingField.RESOURCE),
}

SYNONYMS = {
    "resource_id": MatchingField.RESOURCE,
    "uri": MatchingField.URL,
    "file_path": MatchingField.PATH,
    **{str(each): each for each in MatchingField},
}
"""The words by which a profile or a schema may call a field."""


def field_named(name: str) -> MatchingField | None:
    """Tell what an argument is by its name alone; a number at its end does not matter."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").rstrip("0123456789_").split("_")
    last = words[-1]
    singular = last if last in _NAMES else last.removesuffix("s") if last != "s" else last
    return _NAMES.get("_".join(words)) or _NAMES.get(singular)


def field_hinted(schema: JsonObject) -> MatchingField | None:
    """Tell what an argument is by what its schema says of it."""
    hint, form = schema.get("x-agenttool"), schema.get("format")
    if isinstance(hint, str) and hint in SYNONYMS:
        return SYNONYMS[hint]
    return _FORMATS.get(form) if isinstance(form, str) else None

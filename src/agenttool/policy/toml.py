"""A plain rule as the TOML that someone can paste."""

import json
import re

from agenttool.records import Json, JsonObject

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def rule_toml(members: JsonObject) -> str:
    """Write one `[[rules]]` table; a list of one text is written as the text.

    Raises:
        ValueError: it holds a null, for which TOML has no word.
    """
    lines = [f"{_key(name)} = {_value(_alone(value))}" for name, value in members.items()]
    return "\n".join(["[[rules]]", *lines, ""])


def _alone(value: Json) -> Json:
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    # JSON's escapes are TOML's too, except for the delete character, which JSON leaves bare and TOML forbids.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Json) -> str:
    match value:
        case None:
            raise ValueError("TOML has no null")
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int() | float():
            return repr(value)
        case list():
            return f"[{', '.join(_value(each) for each in value)}]"
        case _:
            return "{ " + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + " }"

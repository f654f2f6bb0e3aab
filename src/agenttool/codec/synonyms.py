"""Spellings of the draft before 0.2: read as synonyms, never written (AT-VER-04)."""

from agenttool.records import SCHEMA_VERSION, JsonObject, Part, ToolDeclaration, ToolInvocation

_RENAMED: dict[type[Part], dict[str, str]] = {
    ToolInvocation: {"arguments": "model_input", "arguments_ref": "model_input_ref"},
}
_RENAMED_IN_CONTRACT = {"schema": "model_input_schema"}


def renamed(members: JsonObject, kind: type[Part]) -> JsonObject:
    """Give a document in today's spelling; one that already is comes back as it was.

    Where both spellings stand side by side, today's counts and the old one is kept as an unknown member.
    """
    contract = members.get("input_contract")
    if issubclass(kind, ToolDeclaration) and isinstance(contract, dict):
        today = _rename(contract, _RENAMED_IN_CONTRACT)
        members = members if today is contract else {**members, "input_contract": today}
    today = _rename(members, _RENAMED.get(kind, {}))
    is_old = str(members.get("schema_version", "")).startswith("0.1.")
    return {**today, "schema_version": SCHEMA_VERSION} if is_old and today is not members else today


def _rename(members: JsonObject, names: dict[str, str]) -> JsonObject:
    if not any(old in members and new not in members for old, new in names.items()):
        return members
    return {(names[name] if names.get(name, name) not in members else name): value for name, value in members.items()}

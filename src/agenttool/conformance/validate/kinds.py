"""Which record a document is: by its own word, or by the members that only one kind of record has."""

from collections.abc import Mapping

from agenttool.conformance.validate.finding import Flaw, Layer, shown_word
from agenttool.records import RECORD_TYPES, Json, JsonObject

ID_MEMBERS = {
    "tool_namespace": "namespace",
    "tool_declaration": "tool_id",
    "tool_interface": "interface_id",
    "tool_execution_profile": "execution_profile_id",
    "tool_permission_profile": "permission_profile_id",
    "tool_surface": "surface_id",
    "deferred_tool_ref": "tool_id",
    "tool_invocation": "invocation_id",
    "tool_input_mutation": "mutation_id",
    "tool_hook": "hook_id",
    "tool_permission_decision": "decision_id",
    "tool_scheduler_policy": "scheduler_policy_id",
    "tool_progress": "progress_id",
    "tool_result": "result_id",
    "tool_result_persistence": "decision_id",
    "tool_event": "event_id",
}
"""The member that names a record; a search result has none."""

_SIGNS: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(members.split()), kind)
    for members, kind in (
        ("event_id", "tool_event"),
        ("progress_id", "tool_progress"),
        ("mutation_id", "tool_input_mutation"),
        ("hook_id", "tool_hook"),
        ("decision_id strategy", "tool_result_persistence"),
        ("decision_id behavior", "tool_permission_decision"),
        ("decision_id decided_at", "tool_permission_decision"),
        ("decision_id persisted_ref", "tool_result_persistence"),
        ("decision_id result_id", "tool_result_persistence"),
        ("result_id", "tool_result"),
        ("scheduler_policy_id", "tool_scheduler_policy"),
        ("interface_id", "tool_interface"),
        ("execution_profile_id", "tool_execution_profile"),
        ("permission_profile_id", "tool_permission_profile"),
        ("query matches", "tool_search_result"),
        # the record has lost its own id, but no other kind has these members
        ("event_type", "tool_event"),
        ("hook_event", "tool_hook"),
        ("invocation_id sequence", "tool_progress"),
        ("invocation_id source_type", "tool_input_mutation"),
        ("invocation_id strategy", "tool_result_persistence"),
        ("invocation_id behavior", "tool_permission_decision"),
        ("invocation_id is_error", "tool_result"),
        ("invocation_id", "tool_invocation"),
        ("surface_id", "tool_surface"),
        ("risk_level", "tool_permission_profile"),
        ("execution_kind", "tool_execution_profile"),
        ("tool_id loading_state", "deferred_tool_ref"),
        ("tool_id tool_kind", "tool_declaration"),
        ("tool_id lifecycle", "tool_declaration"),
        ("tool_id namespace name", "tool_declaration"),
        ("tool_id input_contract", "tool_declaration"),
        ("tool_kind", "tool_declaration"),
    )
)
"""The first line whose members are all there decides."""

_KNOWN = ", ".join(RECORD_TYPES)


def kind_of(members: JsonObject) -> str | Flaw:
    """Name the kind of a record, or say that it cannot be told.

    The published schemas know no `record_type`, so a record without it is as good as one with it.
    """
    name = members.get("record_type")
    if isinstance(name, str) and name in RECORD_TYPES:
        return name
    if "record_type" in members:
        return _unknown_name(name)
    for signs, kind in _SIGNS:
        if signs <= members.keys():
            return kind
    if "namespace" in members and "tool_id" not in members:
        return "tool_namespace"
    return Flaw(
        message="it cannot be told which kind of record this is",
        expected="a record of the standard",
        advice="add its id, or a record_type such as 'tool_result'",
        layer=Layer.SHAPE,
        requirement="AT-MODEL-02",
    )


def id_of(kind: str, members: Mapping[str, Json]) -> str | None:
    """Give the id of a record, if it has one and it is text."""
    value = members.get(ID_MEMBERS.get(kind, ""))
    return value if isinstance(value, str) else None


def _unknown_name(name: Json) -> Flaw:
    word = shown_word(name)
    return Flaw(
        message=f"record_type names no kind of record: {word!r}" if word else "record_type names no kind of record",
        expected=f"one of {_KNOWN}",
        advice="use a listed name, or leave record_type out",
        pointer="/record_type",
        layer=Layer.SHAPE,
        requirement="AT-MODEL-02",
    )

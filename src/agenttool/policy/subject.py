"""The records of a tool as rules match them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from agenttool.codec import digest_of_bytes, sorted_json, to_json
from agenttool.policy.fields import MatchingField, MatchingFields, fields_by_word, matching_fields_of, steps_of
from agenttool.records import (
    UNREADABLE_FACT,
    Digest,
    ExecutionKind,
    ExecutionProfile,
    ExternalMapping,
    InterfaceId,
    JsonObject,
    PermissionProfile,
    ToolDeclaration,
    ToolInterface,
    acted_on,
    follow_fact,
    replace,
)

_MATCHERS = fields_by_word("path file", "shell command", "url domain", "resource")
_EVERYTHING = ("", "$", "*")
"""Spellings of a sensitive field that is the whole input."""


class EffectFacts(NamedTuple):
    """The effects of a call; an unknown effect takes its strictest value (G-14, G-15)."""

    is_read_only: bool = False
    is_destructive: bool = True
    is_open_world: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """The records of one tool that rules match. Subjects compare by identity: a tool that is declared again is new.

    Attributes:
        operations: its native ids, in each spelling that a rule may use.
        facts: the declared effects; strictest where they are computed per call.
        computed: the facts that a classifier computes for each call.
        is_own_code: whether it is code of this process, so that its owner's word is trusted.
        sensitive: the top-level arguments whose values no suggestion may repeat.
        imagined: its fields, if they are not read from its records.
    """

    declaration: ToolDeclaration
    interface: ToolInterface
    profile: PermissionProfile | None
    qualified_name: str
    operations: frozenset[str]
    facts: EffectFacts
    computed: frozenset[str]
    sensitive: frozenset[str]
    is_own_code: bool = False
    imagined: MatchingFields | None = None

    @cached_property
    def fields(self) -> MatchingFields:
        """The places of its input that rules match; computed on first use, because most tools never need it."""
        if self.imagined is not None:
            return self.imagined
        listed = None if self.profile is None else self.profile.rule_matching_fields
        return matching_fields_of(self.schemas, listed, _named_places(self.declaration, self.interface))

    @cached_property
    def schemas(self) -> list[JsonObject]:
        """The schemas of its input that differ; most tools have one."""
        contract = self.declaration.input_contract
        found = [self.interface.model_input_schema, self.interface.runtime_input_schema]
        found += [] if contract is None else [contract.model_input_schema, contract.runtime_input_schema]
        different: list[JsonObject] = []
        for schema in found:
            if schema is not None and schema not in different:
                different.append(schema)
        return different

    @cached_property
    def arguments(self) -> frozenset[str] | None:
        """The names of its arguments, if every schema of it says that there are no others."""
        names: set[str] = set()
        for schema in self.schemas:
            properties = schema.get("properties")
            if schema.get("additionalProperties") is not False or not isinstance(properties, dict):
                return None
            names |= properties.keys()
        return frozenset(names) or None

    @cached_property
    def declaration_digest(self) -> Digest:
        """The digest of what an approver relied on: its description, schemas, facts and risk.

        Native identities are left out, because some change with every connection. The digest that a declaration brings
        along is not trusted, because a changed declaration could keep the old digest.
        """
        declared = replace(self.declaration, digest=None, external_mappings=None)
        parts = [declared, replace(self.interface, external_mappings=None), self.profile]
        return digest_of_bytes(sorted_json([None if part is None else to_json(part) for part in parts]))

    @cached_property
    def hides_fields(self) -> bool:
        """Whether fields that rules match may be sensitive, so that no reason or suggestion may quote them."""
        steps = {step for places in self.fields.places.values() for place in places for step in place}
        return bool(self.sensitive) and bool(self.fields.anywhere or self.sensitive & {*steps, *_EVERYTHING})

    def facts_of(self, found: EffectFacts | None) -> EffectFacts:
        """Combine declared and computed facts of one call; a declared fact can only become stricter."""
        if found is None:
            return self.facts
        declared, computed = self.facts, self.computed
        return EffectFacts(
            is_read_only=found.is_read_only and (declared.is_read_only or "is_read_only" in computed),
            is_destructive=found.is_destructive or (declared.is_destructive and "is_destructive" not in computed),
            is_open_world=found.is_open_world or (declared.is_open_world and "is_open_world" not in computed),
        )


def qualified_name(declaration: ToolDeclaration) -> str:
    """Return the name of a tool with its namespace."""
    return f"{declaration.namespace}.{declaration.name}" if declaration.namespace else declaration.name


def subject_of(
    declaration: ToolDeclaration,
    interface: ToolInterface | None = None,
    execution_profile: ExecutionProfile | None = None,
    permission_profile: PermissionProfile | None = None,
) -> Subject:
    """Return the subject of a tool; a fact that no record declares takes its strict default."""
    if interface is None:
        interface = ToolInterface(interface_id=InterfaceId(""), tool_id=declaration.tool_id)
    contract = declaration.input_contract
    is_own_code = execution_profile is not None and execution_profile.execution_kind is ExecutionKind.EMBEDDED_RUNTIME
    facts = {fact: _fact(interface, fact) for fact in EffectFacts._fields}
    mappings = [each.external_mappings or () for each in (declaration, interface, execution_profile) if each]
    return Subject(
        declaration=declaration,
        interface=interface,
        profile=permission_profile,
        qualified_name=qualified_name(declaration),
        operations=frozenset(name for each in mappings for mapping in each for name in _operations(mapping)),
        facts=EffectFacts(*(value for value, _ in facts.values())),
        computed=frozenset(fact for fact, (_, computed) in facts.items() if computed),
        sensitive=frozenset() if contract is None else frozenset(_top(contract.sensitive_fields or ())),
        is_own_code=is_own_code,
    )


def _fact(interface: ToolInterface, fact: str) -> tuple[bool, bool]:
    """Return the value to act on, and whether a classifier computes it for each call."""
    value = follow_fact(partial(acted_on, interface), fact)
    if isinstance(value, bool):
        return value, False
    return UNREADABLE_FACT[fact], str(value).startswith("classifier:")


def _named_places(
    declaration: ToolDeclaration, interface: ToolInterface
) -> list[tuple[MatchingField, tuple[str, ...]]]:
    """Read `classifier_input`, a dotted path into the input, and what `permission_matcher` says it is (G-17)."""
    source = interface.classifier_input
    if not isinstance(source, str) or not source.startswith("input."):
        return []
    words = (interface.permission_matcher or declaration.tool_kind).lower().replace("-", "_").split("_")
    return [(_MATCHERS[word], tuple(source.split(".")[1:])) for word in words[:1] if word in _MATCHERS]


def _operations(mapping: ExternalMapping) -> Iterator[str]:
    """Return the native identity of an operation, by itself and below its server."""
    members = to_json(mapping)
    hosts = [members.get(key) for key in ("server_id", "server_name", "toolset", "agent_card_url")]
    keys = ("tool_name", "operation_id", "function_name", "agent_skill_id", "command_id", "action_id", "operation")
    for name in (members.get(key) for key in (*keys, "native_id")):
        if isinstance(name, str):
            yield name
            yield from (f"{host}/{name}" for host in hosts if isinstance(host, str))
    method, path = members.get("method"), members.get("path")
    if isinstance(method, str) and isinstance(path, str):
        yield f"{method.upper()} {path}"


def _top(fields: Iterable[str]) -> Iterator[str]:
    """Return the top-level argument that a sensitive field is in, whether it is a pointer or a dotted name."""
    for each in fields:
        yield (steps_of(each) if each.startswith("/") else tuple(each.split(".")))[0]

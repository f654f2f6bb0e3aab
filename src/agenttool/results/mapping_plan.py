"""How the outputs of one tool are mapped to results, read from its records once."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

from agenttool.errors import ConfigError, RecordError
from agenttool.ports.tool import OutputCheck
from agenttool.records import ContentClass, ExecutionProfile, Json, OutputContract, ToolInterface
from agenttool.results.redaction import Redactor, compile_redactor
from agenttool.schema.compile import Checker, compile_schema

_RULE_PLACES = ("path", "pointer", "field")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingPlan:
    """How the outputs of one tool are mapped; read from its records once.

    Attributes:
        effects: false if the tool only reads or may be repeated, so that errors say that a retry is safe.
        is_plain: at most a schema applies, so a plain output can be mapped directly.
        is_bare: nothing applies, not even a schema.
        fails_if_empty: a success without output is a failure, not a marker (G-56).
        output_check: the declared type of an output without a schema; none if any is accepted.
        stored_above: a result of more characters is stored as text, so no copy of its value is made.
        kinds: the types whose values fit the declared type without a further check; none if all do.
        takes_int: an integer can be mapped without any check.
    """

    check: Checker | None = None
    content_types: frozenset[ContentClass] | None = None
    mapper: Callable[[object], object] | None = None
    redactor: Redactor | None = None
    fails_if_empty: bool = False
    fallback_summary: str | None = None
    ui_facing_summary: str | None = None
    transcript_search_text: str | None = None
    has_artifacts: bool = False
    effects: bool | None = None
    output_check: OutputCheck | None = None
    stored_above: float = inf
    kinds: frozenset[type] | None = field(init=False, default=None)
    takes_int: bool = field(init=False, default=False)
    is_plain: bool = field(init=False, default=False)
    is_bare: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Compute once which outputs can be mapped directly."""
        special = (
            self.content_types,
            self.mapper,
            self.redactor,
            self.ui_facing_summary,
            self.transcript_search_text,
        )
        object.__setattr__(self, "is_plain", all(each is None for each in special))
        object.__setattr__(self, "is_bare", self.is_plain and self.check is None)
        object.__setattr__(self, "kinds", None if self.output_check is None else self.output_check.kinds)
        object.__setattr__(self, "takes_int", self.is_bare and (self.kinds is None or int in self.kinds))


PLAIN = MappingPlan()
"""The plan of a tool that declares nothing about its output."""


def plan_mapping(
    interface: ToolInterface,
    contract: OutputContract | None = None,
    *,
    mapper: Callable[[object], object] | None = None,
    output_check: OutputCheck | None = None,
    profile: ExecutionProfile | None = None,
    stored_above: float = inf,
) -> MappingPlan:
    """Return the plan of a tool; `mapper` is the code behind `result_mapper`, if the tool has one.

    A contract that expects artifacts declares them, too.

    Raises:
        ConfigError: the records contradict each other, or a schema is invalid.
    """
    contract = contract or OutputContract()
    rendering = interface.rendering
    supports_artifacts = profile is not None and profile.supports_artifacts is True
    may_repeat = profile is not None and _may_repeat(profile)
    return MappingPlan(
        check=output_checker(interface, contract),
        content_types=None if contract.content_types is None else frozenset(contract.content_types),
        mapper=mapper,
        output_check=output_check,
        stored_above=stored_above,
        redactor=compile_redactor(_paths_of(contract.redaction_rules or ())),
        fails_if_empty=interface.empty_result_policy == "fail",
        fallback_summary=contract.fallback_summary,
        ui_facing_summary=rendering and rendering.ui_summary,
        transcript_search_text=rendering and rendering.transcript_search_text,
        has_artifacts=supports_artifacts or bool(contract.artifact_expectations),
        effects=False if interface.is_read_only is True or may_repeat else None,
    )


def _may_repeat(profile: ExecutionProfile) -> bool:
    """Return whether the owner of the tool, or a trusted server, states that a call may run twice."""
    semantics = profile.retry_semantics
    return profile.supports_retries is True or (isinstance(semantics, dict) and semantics.get("idempotent") is True)


def output_checker(interface: ToolInterface, contract: OutputContract | None) -> Checker | None:
    """Compile the schema of a tool's output; if two records declare one, they must be equal (G-19).

    Raises:
        ConfigError: they differ, or the schema is invalid.
    """
    first, second = interface.output_schema, None if contract is None else contract.structured_schema
    if first is not None and second is not None and first != second:
        raise ConfigError("output_schema and structured_schema must be equal; remove one of them")
    schema = first if first is not None else second
    try:
        return None if schema is None else compile_schema(schema)
    except RecordError as error:
        raise ConfigError(f"output_schema cannot be used: {error}") from error


def _paths_of(rules: Iterable[Json]) -> list[str]:
    """Return the path of each redaction rule: the text itself, or its `path`, `pointer` or `field`.

    A rule without a path redacts everything: that is its strictest reading.
    """
    paths: list[str] = []
    for rule in rules:
        places = [rule.get(name) for name in _RULE_PLACES] if isinstance(rule, dict) else [rule]
        paths += [each for each in places if isinstance(each, str)] or [""]
    return paths

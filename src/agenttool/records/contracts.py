"""Input and output contracts of tools."""

from agenttool.records.content import ContentClass
from agenttool.records.record import UNSET, Json, JsonObject, OpenEnum, Part, UnsetType


class ArgumentMode(OpenEnum):
    """How the arguments of a call travel."""

    JSON = "json"
    TEXT = "text"
    FILE = "file"
    MULTIPART = "multipart"
    STREAM = "stream"
    CUSTOM = "custom"


class MutationPolicy(Part, frozen=True, kw_only=True):
    """Who may replace the input of a call; if missing, a change is allowed, recorded and decided again (G-23)."""

    hooks: bool | None = None
    permission_prompts: bool | None = None


class InputContract(Part, frozen=True, kw_only=True):
    """The input of a tool: what a model may produce, what the runtime may add, and what must be hidden."""

    model_input_schema: JsonObject | None = None
    runtime_input_schema: JsonObject | None = None
    strict: bool | None = None
    defaults: JsonObject | None = None
    examples: tuple[Json, ...] | None = None
    sensitive_fields: tuple[str, ...] | None = None
    internal_only_fields: tuple[str, ...] | None = None
    argument_mode: ArgumentMode | None = None
    media_modes: tuple[str, ...] | None = None
    mutation_policy: MutationPolicy | None = None


class OutputContract(Part, frozen=True, kw_only=True):
    """The output of a tool: its shape, its size limits, and where each representation belongs."""

    structured_schema: JsonObject | None = None
    content_types: tuple[ContentClass, ...] | None = None
    media_modes: tuple[str, ...] | None = None
    result_shape: Json | UnsetType = UNSET
    artifact_expectations: Json | UnsetType = UNSET
    max_inline_bytes: int | None = None
    max_inline_chars: int | None = None
    persistence_policy_ref: str | None = None
    rendering_boundary: Json | UnsetType = UNSET
    redaction_rules: tuple[Json, ...] | None = None
    fallback_summary: str | None = None

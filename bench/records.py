"""Reading and writing records beside pydantic models with the same fields."""
# pyright: basic
# Types built from values are beyond a strict type checker.

from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pydantic

from agenttool.codec import from_json, read, write
from agenttool.records import UNSET, JsonObject, Part, Record, ToolEvent, ToolInvocation, ToolResult, UnsetType
from bench.figure import Figure, compare_speed, require_faster, side_by_side
from bench.harness import Settings


@cache
def peer_of(kind: type[Part]) -> type[pydantic.BaseModel]:
    """Return a model with the same fields, nested models and unknown members as a record."""
    config, fields = kind.__struct_config__, dict[str, Any]()
    if config.tag_field is not None:
        fields[config.tag_field] = (Literal[config.tag], config.tag)
    for field in msgspec.structs.fields(kind):
        default = ... if field.required else None
        if field.default_factory is not msgspec.NODEFAULT:
            default = pydantic.Field(default_factory=field.default_factory)
        name = field.encode_name.lstrip("_")
        annotation = _annotation(field.type, optional=field.default is UNSET)
        if name != field.encode_name:
            default = pydantic.Field(default=default, alias=field.encode_name)
        fields[name] = (annotation, default)
    return pydantic.create_model(kind.__name__, __config__=pydantic.ConfigDict(extra="allow", frozen=True), **fields)


def _annotation(annotation: Any, *, optional: bool) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return peer_of(annotation)
    arguments = tuple(_annotation(each, optional=False) for each in get_args(annotation) if each is not UnsetType)
    match get_origin(annotation):
        case None:
            found = annotation
        case origin if origin in (Union, UnionType):
            found = Union[arguments]  # noqa: UP007 -- made of values
        case origin if origin is tuple:
            found = tuple[arguments]
        case origin if origin is dict:
            found = dict.__class_getitem__(arguments)
        case _:
            found = annotation
    return Union[found, None] if optional else found  # noqa: UP007 -- made of values


BATCH = 2000
_UNIQUE = "0190f3c27d2b7000a1b2c3d4e5f60718"
_MOMENT = "2026-05-08T00:00:00.000Z"
_INPUT: JsonObject = {"path": "notes/today.txt", "limit": 2000}
_STEPS = ("planned", "selected", "arguments_ready", "approved", "queued", "running", "yielded", "succeeded")

SAMPLES: dict[type[Record], JsonObject] = {
    ToolInvocation: {
        "schema_version": "0.2.0",
        "invocation_id": f"inv_{_UNIQUE}",
        "tool_id": "tool_files.read_file",
        "surface_id": f"srf_{_UNIQUE}",
        "native_call_id": "call_9",
        "status": "succeeded",
        "model_input": _INPUT,
        "observable_input": _INPUT,
        "permission_input": _INPUT,
        "call_input": _INPUT,
        "actor_ref": "user:ada",
        "permission_decision_refs": [f"dec_{_UNIQUE}"],
        "scheduler_policy_ref": "sched_default",
        "scheduler": {"is_concurrency_safe": True, "is_read_only": True, "is_destructive": False},
        "status_transitions": [{"status": step, "at": _MOMENT} for step in _STEPS],
        "created_at": _MOMENT,
        "started_at": _MOMENT,
        "ended_at": _MOMENT,
    },
    ToolResult: {
        "schema_version": "0.2.0",
        "result_id": f"res_{_UNIQUE}",
        "invocation_id": f"inv_{_UNIQUE}",
        "status": "succeeded",
        "is_error": False,
        "content": [{"type": "text", "text": "twelve lines of notes"}],
        "structured_content": {"lines": 12},
        "model_facing_content": [{"type": "text", "text": "twelve lines of notes"}],
        "ui_facing_summary": "read 12 lines",
        "persistence_refs": [f"prs_{_UNIQUE}"],
        "redaction_state": "none",
        "created_at": _MOMENT,
    },
    ToolEvent: {
        "schema_version": "0.2.0",
        "event_id": f"evt_{_UNIQUE}",
        "event_type": "tool.invocation.started",
        "source": "agenttool",
        "time": _MOMENT,
        "invocation_id": f"inv_{_UNIQUE}",
        "tool_id": "tool_files.read_file",
        "data": {"sequence": 6, "status": "running"},
    },
}


def measure(settings: Settings) -> list[Figure]:
    """Read and write records of each kind, then all kinds together."""
    figures = [figure for kind, sample in SAMPLES.items() for figure in _measure(kind, sample)]
    whole = _both("decode and encode one of each", [each for each in figures if each.name.startswith("decode and")])
    return [*figures, whole]


def _both(name: str, parts: list[Figure]) -> Figure:
    """Add up figures, and set a limit on the sum."""
    times = sum(each.ours for each in parts), sum(each.peer for each in parts)
    return require_faster(name, times, peer_name="pydantic", unit="µs", at_least=5)


def _measure(kind: type[Record], sample: JsonObject) -> list[Figure]:
    record, model = from_json(sample, kind), peer_of(kind)
    line = write(record)
    peer = model.model_validate_json(line)
    reads = side_by_side(
        lambda: [read(line, kind) for _ in range(BATCH)],
        lambda: [model.model_validate_json(line) for _ in range(BATCH)],
    )
    writes = side_by_side(
        lambda: [write(record) for _ in range(BATCH)],
        lambda: [peer.model_dump_json(exclude_none=True, by_alias=True) for _ in range(BATCH)],
    )
    name = str(kind.__struct_config__.tag)
    there = compare_speed(f"decode a {name}", reads, per=BATCH, peer_name="pydantic", unit="µs")
    back = compare_speed(f"encode a {name}", writes, per=BATCH, peer_name="pydantic", unit="µs")
    return [_both(f"decode and encode a {name}", [there, back]), there, back]

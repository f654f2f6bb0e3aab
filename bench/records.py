"""Reading and writing records beside pydantic models with the same fields."""

from agenttool.codec import from_json, read, read_lines, write
from agenttool.records import JsonObject, Record, ToolEvent, ToolInvocation, ToolResult
from bench.figure import Figure, faster, side_by_side, told_faster
from bench.peers import peer_of
from bench.settings import Settings

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
    """Read and write records of each kind, kept as a program keeps them; then all kinds together."""
    figures = [figure for kind, sample in SAMPLES.items() for figure in _measure(kind, sample)]
    whole = _both("decode and encode one of each", [each for each in figures if each.name.startswith("decode and")])
    return [*figures, whole]


def _both(name: str, parts: list[Figure]) -> Figure:
    """Add up what belongs together; of this, and not of its parts, something is wanted."""
    times = sum(each.ours for each in parts), sum(each.peer for each in parts)
    return faster(name, times, peer_name="pydantic", unit="µs", at_least=5)


def _measure(kind: type[Record], sample: JsonObject) -> list[Figure]:
    record, model = from_json(sample, kind), peer_of(kind)
    line = write(record)
    peer = model.model_validate_json(line)
    lines = b"\n".join([line] * BATCH)
    reads = side_by_side(
        lambda: [read(line, kind) for _ in range(BATCH)],
        lambda: [model.model_validate_json(line) for _ in range(BATCH)],
    )
    log_reads = side_by_side(
        lambda: read_lines(lines, kind),
        lambda: [model.model_validate_json(each) for each in lines.splitlines()],
    )
    writes = side_by_side(
        lambda: [write(record) for _ in range(BATCH)],
        lambda: [peer.model_dump_json(exclude_none=True, by_alias=True) for _ in range(BATCH)],
    )
    name = str(kind.__struct_config__.tag)
    there = told_faster(f"decode a {name}", reads, per=BATCH, peer_name="pydantic", unit="µs")
    back = told_faster(f"encode a {name}", writes, per=BATCH, peer_name="pydantic", unit="µs")
    log = faster(f"decode a log of {name}", log_reads, per=BATCH, peer_name="pydantic", unit="µs", at_least=5)
    return [_both(f"decode and encode a {name}", [there, back]), there, back, log]

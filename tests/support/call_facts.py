"""The facts of a plain call, for tests of stores."""

from collections.abc import Mapping

from agenttool.codec.moments import timestamp
from agenttool.journal import steps
from agenttool.ports.facts import Evidence, Fact, FactData, Step
from agenttool.records import (
    EventType,
    InvocationId,
    InvocationStatus,
    JsonObject,
    Record,
    ResultId,
    ResultStatus,
    ToolId,
    ToolResult,
    text_item,
)
from agenttool.testing.fakes import EPOCH_NS

TOOL = ToolId("tool_test.read")


class FixedEvidence(Evidence, frozen=True):
    """Evidence with fixed content."""

    data: JsonObject
    fields: Mapping[str, object]
    documents: tuple[Record, ...] = ()

    def members(self, event: EventType) -> JsonObject:
        """Return the data, with the name of the event."""
        return {**self.data, "of": event.value}

    def contributes(self) -> Mapping[str, object]:
        """Return the fields."""
        return self.fields

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the records."""
        return self.documents


def invocation_number(number: int) -> InvocationId:
    """Return the id of the n-th call; ids sort by number, as real ids sort by time."""
    return InvocationId(f"inv_{number:032x}")


def facts_of_call(number: int, *, until: Step | None = None, parent: int | None = None) -> list[Fact]:
    """Return the facts of the n-th call, up to a step if one is given; `parent` is the number of its parent."""
    invocation_id = invocation_number(number)
    result = ToolResult(
        result_id=ResultId(f"res_{number:032x}"),
        invocation_id=invocation_id,
        status=ResultStatus.SUCCEEDED,
        is_error=False,
        content=(text_item("twelve lines of notes"),),
        created_at=timestamp(EPOCH_NS),
    )
    asked = {"model_input": {"path": "notes.txt", "zoë": [1, 2.5, None]}, "actor_ref": "user:ada"}
    if parent is not None:
        asked["parent_invocation_id"] = invocation_number(parent)
    taken: list[tuple[Step, FactData]] = [
        (steps.ADMITTED, FixedEvidence({"name": "read"}, asked)),
        (steps.JUDGED, FixedEvidence({"behavior": "allow"}, {"permission_decision_refs": (f"dec_{number}-1",)})),
        (steps.STARTED, None),
        (steps.PROGRESSED, {"progress": 1, "message": "halfway"}),
        (steps.ENDED[InvocationStatus.SUCCEEDED], FixedEvidence({"result_id": result.result_id}, {}, (result,))),
    ]
    facts: list[Fact] = []
    events = 0
    for place, (step, data) in enumerate(taken):
        facts.append(Fact(step, EPOCH_NS + number * 1_000_000 + place * 1000, events, invocation_id, TOOL, data))
        events += step.events
        if step is until:
            break
    return facts

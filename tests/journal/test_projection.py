from agenttool.codec import to_json
from agenttool.journal import steps
from agenttool.journal.projection import events_of, invocation_of, records_of
from agenttool.ports.facts import Fact
from agenttool.records import InvocationStatus
from agenttool.schema.compile import compile_schema
from agenttool.schema.record_schemas import schema_of
from agenttool.testing.fakes import EPOCH_NS

S = InvocationStatus


class Words:
    """Evidence with given values."""

    def __init__(self, **fields):
        self.fields = fields

    def members(self, event):
        return {"said": sorted(self.fields)}

    def contributes(self):
        return self.fields

    def records(self, fact):
        return ()


def facts(*taken):
    made, events = [], 0
    for number, (step, data) in enumerate(taken):
        made.append(Fact(step, EPOCH_NS + number * 1_000_000, events, "inv_1", "tool_a", data))
        events += step.events
    return made


DONE = facts(
    (steps.CHOSEN, Words(model_input={"a": 1}, surface_id="srf_1", hook_refs=("h1",))),
    (steps.INPUT_CHANGED, Words(call_input={"a": 2}, hook_refs=("h2",))),
    (steps.STARTED, None),
    (steps.ENDED[S.SUCCEEDED], {"result_id": "res_1"}),
)


def recorded(fact):
    return [to_json(event) for event in events_of(fact, position=1)]


def test_a_call_is_the_fold_of_its_facts():
    call = to_json(invocation_of(DONE))
    assert call["status"] == "succeeded"
    assert [step["status"] for step in call["status_transitions"]] == [
        "planned",
        "selected",
        "queued",
        "running",
        "yielded",
        "succeeded",
    ]
    assert call["model_input"] == {"a": 1}
    assert call["call_input"] == {"a": 2}
    assert call["hook_refs"] == ["h1", "h2"]
    assert (call["created_at"], call["started_at"], call["ended_at"]) == (
        "2026-05-08T00:00:00.000000Z",
        "2026-05-08T00:00:00.002000Z",
        "2026-05-08T00:00:00.003000Z",
    )
    assert compile_schema(schema_of("tool_invocation")).misfits(call) == []


def test_a_call_that_still_runs_has_no_end():
    assert to_json(invocation_of(DONE[:3])).get("ended_at") is None


def test_nothing_is_known_of_a_call_without_facts():
    assert invocation_of([]) is None
    assert list(records_of(DONE)) == []


def test_an_event_reports_its_fact_and_the_same_one_twice_has_one_id():
    planned, selected = recorded(DONE[0])
    assert planned["event_type"] == "tool.invocation.planned"
    assert planned["data"] == {"sequence": 1, "status": "planned", "said": ["hook_refs", "model_input", "surface_id"]}
    assert selected["data"]["sequence"] == 2
    assert [planned, selected] == recorded(DONE[0])
    ids = [event["event_id"] for fact in DONE for event in recorded(fact)]
    assert len(set(ids)) == len(ids) == 7


def test_a_step_the_standard_has_no_event_for_is_reported_by_none():
    assert recorded(DONE[1]) == []

"""What a call links: the things of other systems, by refs, from its invocation and its result."""

import hashlib
import json

import pytest

from agenttool import Runtime, tool
from agenttool.codec import to_json
from agenttool.ports.output import Media, NativeOutput
from agenttool.records import Ref, TelemetryRef
from agenttool.testing.fakes import scripted_tool

ARTIFACT = Ref(id="art_7", uri="artifacts:7", media_type="image/png", digest="sha256:" + "7" * 64, relation="produced")
RESOURCE = Ref(id="doc_3", uri="file:///brief.md", media_type="text/markdown", relation="read")
MEMBERS = frozenset(
    """
    result_id invocation_id status is_error content structured_content model_facing_content ui_facing_summary
    resource_refs artifact_refs evidence_refs telemetry_refs summary redaction_state created_at
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
SPAN = TelemetryRef(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")


async def paint(job):
    """Have a picture painted by another system, which has a task, an artifact, evidence and a trace of its own."""
    job.report("painting", facts={"task_id": "task_9"})
    job.report("still painting", facts={"task_id": "task_9"})
    return NativeOutput(
        value="a hedgehog " * job.call_input.get("times", 1),
        structured_content={"pictures": 1},
        artifact_refs=(ARTIFACT,),
        resource_refs=(RESOURCE,),
        evidence_refs=("evidence:review-4",),
        telemetry_refs=(SPAN,),
        summary="one picture",
        ui_facing_summary="Painted a hedgehog",
    )


@pytest.fixture
def painter(changed):
    return changed(
        scripted_tool("paint", paint), execution_profile={"supports_artifacts": True, "supports_progress": True}
    )


@pytest.mark.requirement("AT-INV-05", "AT-MODEL-04", "AT-REF-05")
async def test_an_invocation_links_the_five_systems_that_it_touched_and_holds_nothing_of_theirs(
    painter, call, rule, call_records
):
    house = rule("allow", "*", source="policy_settings", ref="house-rule")
    async with Runtime.open(tools=[painter], rules=[house]) as rt:
        recorded = await call_records(rt, await call(rt, "paint", {}))
    linked = {
        name: recorded.invocation[f"{name}_refs"] for name in ("runtime", "policy", "evidence", "telemetry", "artifact")
    }
    assert linked == {
        "runtime": ["task_9"],
        "policy": ["house-rule"],
        "evidence": ["evidence:review-4"],
        "telemetry": [to_json(SPAN)],
        "artifact": [to_json(ARTIFACT)],
    }
    assert all(each["task_id"] == "task_9" for each in recorded.progress)
    assert "hedgehog" not in json.dumps(recorded.invocation)


@pytest.mark.requirement("AT-RES-02")
async def test_a_rich_result_fills_every_member_that_applies(painter, call, rule, call_records):
    async with Runtime.open(tools=[painter], rules=[rule("allow", "*")]) as rt:
        rich = await call_records(rt, await call(rt, "paint", {}))
        large = await call_records(rt, await call(rt, "paint", {"times": 4000}))
    async with Runtime.open(
        tools=[painter], rules=[rule("deny", "*", source="policy_settings", ref="house-rule")]
    ) as rt:
        denied = await call_records(rt, await call(rt, "paint", {}))
    assert rich.result.keys() >= MEMBERS
    assert large.result["persistence_refs"] == [each["decision_id"] for each in large.persistence] != []
    assert denied.result["policy_refs"] == denied.invocation["policy_refs"] == ["house-rule"]


@pytest.mark.requirement("AT-REF-03")
async def test_every_ref_to_stored_bytes_has_six_facts_and_a_digest_that_can_be_checked(allow, call, records):
    @tool(read_only=True, open_world=False)
    async def draw() -> Media:
        """Draw. Not for text."""
        return Media(b"\x89PNG and so on", "image/png", "hedgehog.png")

    async with Runtime.open(tools=[draw], rules=allow) as rt:
        result = await call(rt, "draw", {})
        (item,) = result.content
        data = await rt.journal.payload(item.ref)
    ref = to_json(item.ref)
    assert {"id", "uri", "media_type", "digest", "access", "relation"} <= ref.keys()
    assert (ref["media_type"], data) == ("image/png", b"\x89PNG and so on")
    assert ref["digest"] == "sha256:" + hashlib.sha256(data).hexdigest()

"""The standard's acceptance scenarios 12 to 14: large, empty and lost outputs, and deliverables."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from agenttool import Runtime, tool
from agenttool.ports.output import NativeOutput
from agenttool.records import Ref, replace
from agenttool.testing.fakes import scripted_tool

LINES = 20_000


@tool
async def dump() -> str:
    """Return a lot. Not for a little."""
    return "\n".join(f"line {number}" for number in range(LINES))


@tool
async def silent() -> None:
    """Say nothing. Not for talkers."""


@pytest.mark.requirement("AT-ACC-12", "AT-PERS-06", "AT-PERS-11", "AT-PERS-13", "AT-PERS-01")
async def test_12_a_large_result_returns_a_ref_and_a_preview_instead_of_the_full_payload(
    allow, bench, call, call_records
):
    async with bench.open([dump], rules=allow) as rt:
        result = await call(rt, "dump", {})
        recorded = await call_records(rt, result)
    (decision,) = recorded.persistence
    ref = decision["persisted_ref"]
    stored = await bench.payloads.get(ref["digest"])
    preview = recorded.result["model_facing_content"][0]["text"]
    assert stored.decode() == "\n".join(f"line {number}" for number in range(LINES))
    assert ref["digest"] == "sha256:" + hashlib.sha256(stored).hexdigest()
    assert decision["original_size_bytes"] == ref["size_bytes"] == len(stored)
    assert (decision["strategy"], decision["result_id"]) == ("preview_and_persist", result.result_id)
    assert decision["threshold"] == {"max_inline_chars": 30_000}
    assert recorded.result["persistence_refs"] == [decision["decision_id"]]
    assert [item["type"] for item in recorded.result["content"]] == ["persisted_output_ref"]
    assert recorded.result["content"][0]["ref"]["digest"] == ref["digest"]
    assert recorded.result["native_output_ref"] == ref["id"]
    assert len(preview) < 10_000
    assert len(str(recorded.result)) < 20_000
    assert ("line 0" in preview, "line 19999" in preview, "line 9000\n" in preview) == (True, True, False)
    assert recorded.event_types[-4:] == ["result.persisted", "result.created", "yielded", "succeeded"]
    assert recorded.events[-4]["data"]["decision_id"] == decision["decision_id"]


class LostStore:
    """A payload store whose disk is gone."""

    async def put(self, data, digest):
        raise OSError("no space left on device")

    async def get(self, digest, *, start=0, length=None):
        return None


@pytest.mark.requirement("AT-ACC-13", "AT-PERS-14")
async def test_13_empty_successful_output_is_distinguishable_from_missing_output(allow, bench, call, call_records):
    async with bench.open([dump, silent], rules=allow) as rt:
        empty = await call_records(rt, await call(rt, "silent", {}))
        retained = await call_records(rt, await call(rt, "dump", {}))
        digest = retained.persistence[0]["persisted_ref"]["digest"]
        bench.payloads.drop(digest)
        gone = await call_records(rt, retained.result["invocation_id"])
    bench.payloads = LostStore()
    async with bench.open([dump], rules=allow) as rt:
        never_stored = await call_records(rt, await call(rt, "dump", {}))
    assert (empty.result["status"], empty.result["empty_result"], empty.result["content"]) == ("succeeded", True, [])
    assert "no output" in empty.result["model_facing_content"][0]["text"]
    assert gone.result == retained.result, "what was lost later was there, and the record still says so"
    assert ("empty_result" in gone.result, gone.result["content"][0]["ref"]["digest"]) == (False, digest)
    assert (never_stored.result["status"], "empty_result" in never_stored.result) == ("too_large", False)
    assert never_stored.result["error"]["error_code"] == "not_persistable"
    assert never_stored.invocation["status"] == "succeeded", "it ran"


def resolve(ref):
    return Path(ref["uri"].removeprefix("file://")).read_bytes()


@pytest.mark.requirement("AT-ACC-14", "AT-PERS-07")
async def test_14_a_result_links_to_an_artifact_that_resolves(allow, call, call_records, records, tmp_path):
    content = b"%PDF the report"
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    (tmp_path / "report.pdf").write_bytes(content)
    (tmp_path / "data.csv").write_text("a,b")

    async def write_report(job):
        artifact = Ref(
            id="art_report", uri=(tmp_path / "report.pdf").as_uri(), media_type="application/pdf", digest=digest
        )
        source = Ref(id="data.csv", uri=(tmp_path / "data.csv").as_uri(), relation="read_from")
        return NativeOutput(value="report written", artifact_refs=(artifact,), resource_refs=(source,))

    plain = scripted_tool("write_report", write_report)
    profile = replace(plain.execution_profile, supports_artifacts=True)
    async with Runtime.open(tools=[dataclasses.replace(plain, execution_profile=profile)], rules=allow) as rt:
        recorded = await call_records(rt, await call(rt, "write_report", {}))
        (declared,) = await records(rt, "tool_execution_profile")
    (artifact,), (resource,) = recorded.result["artifact_refs"], recorded.result["resource_refs"]
    assert (artifact["id"], resource["id"]) == ("art_report", "data.csv")
    assert "sha256:" + hashlib.sha256(resolve(artifact)).hexdigest() == artifact["digest"]
    assert resolve(resource) == b"a,b"
    assert content.decode() not in str(recorded.result)
    assert declared["supports_artifacts"] is True

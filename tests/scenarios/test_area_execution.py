"""What an executor is handed, what it may say, and that a computed fact is one of the call and not of the tool."""

import asyncio

import pytest

from agenttool import Runtime, tool
from agenttool.ports.advice import Advice, Adviser
from agenttool.records import RuleSource
from agenttool.testing.fakes import scripted_tool


@pytest.mark.requirement("AT-PIPE-16")
async def test_an_executor_gets_time_signal_progress_sandbox_credentials_and_a_place_for_native_ids(
    allow, call, changed, call_records
):
    handed = {}

    async def work(job):
        handed.update(deadline=job.deadline_ns, cancel=job.cancel.is_requested, sandbox=job.sandbox_profile)
        handed["keys"] = {name: secret.value for name, secret in job.credentials.items()}
        job.report("half way", percent=50)
        job.add_native_ids("mcp", {"jsonrpc_request_id": "7", "server_id": "here"})
        return "done"

    tried = scripted_tool("probe", work, required_credentials=("github",))
    probe = changed(tried, execution_profile={"timeout_ms": 5000, "sandbox_profile": "no-net"})
    given = {"github": "ghp_0123456789"}
    async with Runtime.open(tools=[probe], rules=allow, approve="wait", credentials=given) as rt:
        recorded = await call_records(rt, await call(rt, "probe", {}))
    assert (handed["cancel"], handed["sandbox"], handed["keys"]) == (False, "no-net", given)
    assert handed["deadline"] is not None
    assert [(each["message"], each["percent"]) for each in recorded.progress] == [("half way", 50)]
    assert recorded.invocation["external_mappings"] == [
        {"source": "mcp", "jsonrpc_request_id": "7", "server_id": "here"}
    ]


COUNTS = {"total_steps": 3, "bytes_read": 5, "bytes_written": 6, "line_count": 7, "task_id": "job-1"}


@pytest.mark.requirement("AT-PROG-03")
async def test_an_update_keeps_all_that_a_tool_can_say_of_its_progress(allow, call, call_records):
    async def work(job):
        job.report("reading", percent=40, step="read", facts=COUNTS)
        job.report(partial={"rows": 1})
        return "done"

    async with Runtime.open(tools=[scripted_tool("probe", work)], rules=allow, approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "probe", {}))
    first, second = recorded.progress
    said = {"sequence": 1, "status": "running", "message": "reading", "percent": 40, "current_step": "read"}
    assert first.items() >= {**said, **COUNTS, "invocation_id": recorded.invocation["invocation_id"]}.items()
    assert {"progress_id", "elapsed_ms", "timestamp"} <= first.keys()
    assert (second["status"], len(second["partial_result_refs"])) == ("partial_result", 1)


@pytest.mark.parametrize(
    "facts", [{"nonsense": 1}, {"sequence": 9}, {"line_count": "many"}, {"bytes_read": 2**70}, {"task_id": 5}], ids=str
)
async def test_a_count_that_no_update_has_a_place_for_spoils_no_record(allow, call, call_records, facts):
    async def work(job):
        job.report("counting", facts={**facts, "exit_code": 0})
        return "done"

    async with Runtime.open(tools=[scripted_tool("probe", work)], rules=allow, approve="wait") as rt:
        recorded = await call_records(rt, await call(rt, "probe", {}))
    assert [(each["sequence"], each["exit_code"]) for each in recorded.progress] == [(1, 0)]
    assert not facts.keys() & recorded.progress[0].keys() - {"sequence"}


@pytest.mark.requirement("AT-IFACE-20")
async def test_destructiveness_is_false_until_it_is_stated_and_inferred_until_it_is_declared(
    records, rule, call_records, call
):
    plain = scripted_tool("plain")
    wipes = scripted_tool("wipes", is_destructive="classifier:wipes")
    wipes.classifiers["wipes"] = lambda value: value.get("target") == "/"
    async with Runtime.open(tools=[plain, wipes], rules=[rule("allow", "*")], approve="wait") as rt:
        (interface,) = [each for each in await records(rt, "tool_interface") if each["tool_id"].endswith("plain")]
        harmless = await call_records(rt, await call(rt, "wipes", {"target": "x"}))
        harmful = await call_records(rt, await call(rt, "wipes", {"target": "/"}))
    assert (interface["is_destructive"], "is_destructive" in interface["inferred_facts"]) == (False, True)
    assert [each.invocation["scheduler"]["is_destructive"] for each in (harmless, harmful)] == [False, True]


@pytest.mark.requirement("AT-IFACE-31")
@pytest.mark.parametrize("path", ["notes/a.txt", "./notes/../notes//a.txt", "{root}/notes/a.txt"])
async def test_one_path_in_three_spellings_is_matched_by_one_rule_and_recorded_in_one_form(
    tmp_path, monkeypatch, path, call_records
):
    @tool(read_only=True, open_world=False)
    async def read(path: str) -> str:
        """Read a file. Not for folders."""
        return path

    (tmp_path / "agenttool.toml").write_text(
        '[[rules]]\nbehavior = "deny"\ntool = "local.read"\npath = "notes/a.txt"\n'
    )
    monkeypatch.chdir(tmp_path)
    async with Runtime.open(tools=[read], config=tmp_path / "agenttool.toml", approve="wait") as rt:
        result = await rt.call("read", {"path": path.format(root=tmp_path)}, surface=await rt.surface())
        recorded = await call_records(rt, result)
    assert result.error.error_class == "permission_denied"
    assert recorded.decisions[0]["blocked_path"] == str(tmp_path / "notes" / "a.txt")


@pytest.mark.requirement("AT-DECL-22")
async def test_whatever_returns_structured_content_declares_its_shape(allow, call, records):
    @tool(read_only=True, open_world=False)
    async def count(text: str) -> dict[str, int]:
        """Count letters. Not for words."""
        return {"letters": len(text)}

    async with Runtime.open(tools=[count], rules=allow, approve="wait") as rt:
        result = await call(rt, "count", {"text": "four"})
        (declaration,) = await records(rt, "tool_declaration")
    assert result.structured_content == {"letters": 4}
    assert declaration["output_contract"]["structured_schema"]["additionalProperties"] == {"type": "integer"}


class Judge:
    async def advise(self, question):
        return Advice(behavior="deny", reason="as I said")


SOURCES = {
    "rule": ({"rules": [("deny", RuleSource.PROJECT_SETTINGS)]}, ("rule", "project_settings")),
    "policy": ({"rules": [("deny", RuleSource.POLICY_SETTINGS)]}, ("rule", "policy_settings")),
    "classifier": ({"advisers": [Adviser(ref="judge", judge=Judge())]}, ("classifier", "classifier:judge")),
    "engine": ({"advisers": [Adviser(ref="judge", judge=Judge(), is_engine=True)]}, ("policy", "engine:judge")),
    "person": ({"rules": [("ask", RuleSource.PROJECT_SETTINGS)]}, ("permission_prompt_tool", "permission_prompt")),
}


@pytest.mark.requirement("AT-PIPE-13")
@pytest.mark.parametrize("source", SOURCES)
async def test_the_decider_is_named_in_a_decision(asked_questions, call, rule, call_records, source):
    given, (reason, named) = SOURCES[source]
    rules = [rule(behavior, "*", source=origin) for behavior, origin in given.get("rules", ())]
    async with Runtime.open(
        tools=[scripted_tool("probe")], rules=rules, advisers=given.get("advisers", ()), approve="wait"
    ) as rt:
        calling = asyncio.ensure_future(call(rt, "probe", {}))
        if source == "person":
            (question,) = await asked_questions(rt)
            await rt.approvals.decide(question.approval_id, "deny")
        recorded = await call_records(rt, await calling)
    assert (recorded.decisions[-1]["behavior"], recorded.decisions[-1]["source"]) == ("deny", named)
    assert recorded.decisions[-1]["reason"]["type"] == reason

"""Errors that a program can distinguish, and what each says about the call."""

import asyncio
import dataclasses
from typing import Annotated

import pytest

from agenttool import Context, Inject, Runtime, ToolFailure, tool
from agenttool.ports.output import FailedItem, NativeError, NativeOutput, Partial
from agenttool.records import ErrorClass, InputContract, OutputContract, ToolError, replace
from agenttool.stores.memory import MemoryPayloads
from agenttool.testing.fakes import scripted_tool

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def refusing(error_class, message="as asked"):
    """Give a check that refuses every input in one way."""

    def check(arguments):
        raise ToolFailure(ToolError(error_class=ErrorClass(error_class), message=message))

    return check


def failing(words="as asked", kind=ValueError):
    async def work(job):
        raise kind(words)

    return work


def failing_with_class(error_class):
    async def work(job):
        raise ToolFailure(ToolError(error_class=ErrorClass(error_class), message="as asked"))

    return work


def giving(output):
    async def work(job):
        return output

    return work


class Database:
    """An object that the program has to provide."""


@tool(concurrency_safe=True)
async def query(database: Annotated[Database, Inject]) -> str:
    """Ask a database. Not for files."""
    return "rows"


@tool(credentials=["mail"], concurrency_safe=True)
async def send_mail(context: Context) -> str:
    """Send a mail. Not for letters."""
    return str(context.credentials["mail"])


@pytest.mark.requirement("AT-ERR-08")
async def test_a_missing_setup_a_missing_credential_and_a_step_outside_the_sandbox_are_distinguished(
    allow, call, call_records, tmp_path
):
    def within(arguments):
        if not (tmp_path / arguments["path"]).resolve().is_relative_to(tmp_path):
            message = f"{arguments['path']!r} is outside of the sandbox"
            raise ToolFailure(ToolError(error_class=ErrorClass.SANDBOX_VIOLATION, message=message))

    read = dataclasses.replace(scripted_tool("read", schema=PATH), preflight=within)
    given = {"provide": {Database: lambda: None}, "credentials": {"mail": lambda: None}}
    async with Runtime.open(tools=[query, send_mail, read], rules=allow, **given) as rt:
        recorded = {
            "setup_required": await call_records(rt, await call(rt, "query", {})),
            "credential_missing": await call_records(rt, await call(rt, "send_mail", {})),
            "sandbox_violation": await call_records(rt, await call(rt, "read", {"path": "../secret"})),
        }
        inside = await call(rt, "read", {"path": "letter"})
    assert inside.ok
    assert {name: each.result["error"]["error_class"] for name, each in recorded.items()} == {
        name: name for name in recorded
    }
    assert len({each.result["model_facing_content"][0]["text"] for each in recorded.values()}) == len(recorded)


@pytest.mark.requirement("AT-PIPE-08")
async def test_a_value_a_setup_a_credential_and_a_sandbox_are_distinguished_before_anything_runs(
    allow, call, call_records
):
    classes = ("invalid_arguments", "setup_required", "credential_missing", "sandbox_violation", "capability_gap")
    tools = [dataclasses.replace(scripted_tool(each), preflight=refusing(each, f"no {each}")) for each in classes]
    async with Runtime.open(tools=tools, rules=allow, approve="wait") as rt:
        recorded = {each: await call_records(rt, await call(rt, each, {})) for each in classes}
    assert {each: recorded[each].result["error"]["error_class"] for each in classes} == {each: each for each in classes}
    assert {each: recorded[each].invocation["status"] for each in classes} == {
        **dict.fromkeys(classes, "blocked"),
        "invalid_arguments": "validation_failed",
    }
    assert [each.executor.inputs for each in tools] == [[]] * 5


@pytest.mark.requirement("AT-PIPE-17", "AT-ERR-09", "AT-EXEC-07", "AT-RES-08")
async def test_a_tool_that_fails_hangs_loses_its_backend_is_throttled_or_half_fails_says_which(
    allow, call, changed, call_records
):
    async def hang(job):
        await asyncio.Event().wait()

    throttled = NativeOutput(is_error=True, error=NativeError(error_class=ErrorClass.RATE_LIMITED, retry_after=30))
    half = NativeOutput(partial=Partial(succeeded=("a", "c"), failed=(FailedItem(item="b", message="locked"),)))
    tools = {
        "execution_failed": scripted_tool("execution_failed", failing()),
        "timeout": changed(scripted_tool("timeout", hang), execution_profile={"timeout_ms": 10}),
        "dependency_unavailable": scripted_tool("dependency_unavailable", failing(kind=ConnectionError)),
        "rate_limited": scripted_tool("rate_limited", giving(throttled)),
        "partial_failure": scripted_tool("partial_failure", giving(half)),
    }
    async with Runtime.open(tools=tools.values(), rules=allow, approve="wait") as rt:
        recorded = {name: await call_records(rt, await call(rt, name, {})) for name in tools}
    assert {name: each.result["error"]["error_class"] for name, each in recorded.items()} == {
        name: name for name in tools
    }
    assert (recorded["timeout"].invocation["status"], recorded["timeout"].result["status"]) == (
        "timed_out",
        "timed_out",
    )
    assert recorded["timeout"].result["abort_reason"] == "timeout"
    assert recorded["rate_limited"].result["error"]["retry_after"] == 30
    assert recorded["partial_failure"].result["status"] == "partial_succeeded"
    assert recorded["partial_failure"].result["is_error"] is False
    assert recorded["partial_failure"].result["structured_content"] == {
        "succeeded": ["a", "c"],
        "failed": [{"item": "b", "message": "locked"}],
    }


@pytest.mark.requirement("AT-IO-18")
async def test_redaction_rules_apply_and_the_summary_stands_in_for_what_is_withheld(
    allow, call, changed, records, call_records
):
    contract = {
        "rendering_boundary": {"model": "content", "ui": "structured_content"},
        "fallback_summary": "a customer",
    }
    person = {"name": "Ada", "number": "4711-0815"}
    partly = OutputContract(redaction_rules=("/number",), **contract)
    wholly = OutputContract(redaction_rules=("*",), **contract)
    tools = [
        changed(scripted_tool(name, giving(person)), declaration={"output_contract": each})
        for name, each in (("partly", partly), ("wholly", wholly))
    ]
    async with Runtime.open(tools=tools, rules=allow) as rt:
        recorded = {name: await call_records(rt, await call(rt, name, {})) for name in ("partly", "wholly")}
        declared = {each["name"]: each["output_contract"] for each in await records(rt, "tool_declaration")}
    assert declared == {
        "partly": {"redaction_rules": ["/number"], **contract},
        "wholly": {"redaction_rules": ["*"], **contract},
    }
    assert recorded["partly"].result["structured_content"] == {"name": "Ada", "number": "[redacted]"}
    assert "4711-0815" not in repr(recorded)
    assert "Ada" not in repr(recorded["wholly"])
    assert recorded["wholly"].result["model_facing_content"][0]["text"].startswith("a customer\n")


@pytest.mark.requirement("AT-PIPE-24", "AT-ERR-11", "AT-RES-09")
async def test_what_ran_and_cannot_be_delivered_is_no_failed_execution(allow, bench, call, changed, call_records):
    class FullStore(MemoryPayloads):
        async def put(self, data, digest):
            raise OSError("no space left on device")

    tools = [
        scripted_tool("dropped", max_inline_chars=1, persistence_policy_ref="drop_with_reason"),
        scripted_tool("unstorable", max_inline_chars=1),
        changed(scripted_tool("withheld"), declaration={"output_contract": OutputContract(redaction_rules=("*",))}),
        scripted_tool("fail", failing()),
    ]
    bench.payloads = FullStore()
    async with bench.open(tools, rules=allow) as rt:
        recorded = {
            name: await call_records(rt, await call(rt, name, {}))
            for name in ("dropped", "unstorable", "withheld", "fail")
        }
    ends = {
        name: (each.invocation["status"], each.result["status"], each.result["error"]["error_code"])
        for name, each in recorded.items()
    }
    assert ends == {
        "dropped": ("succeeded", "too_large", "result_too_large"),
        "unstorable": ("succeeded", "too_large", "not_persistable"),
        "withheld": ("succeeded", "redacted", "result_redacted"),
        "fail": ("failed", "failed", "execution_failed"),
    }
    assert "result.redacted" in recorded["withheld"].event_types
    for name in ("dropped", "unstorable", "withheld"):
        assert recorded[name].event_types[-1] == "succeeded"
        assert recorded[name].result["error"]["retry"]["safe"] is False
        assert recorded[name].persistence[0]["result_id"] == recorded[name].result["result_id"]


@pytest.mark.requirement("AT-ERR-04", "AT-ERR-15")
async def test_fourteen_families_of_errors_have_fourteen_different_names(allow, asked_questions, begun, changed, rule):
    async def hang(job):
        await asyncio.Event().wait()

    protocol = NativeError(error_class=ErrorClass.DEPENDENCY_UNAVAILABLE, error_code="protocol_error", message="-32700")
    throttled = NativeError(error_class=ErrorClass.RATE_LIMITED)
    tools = [
        scripted_tool("protocol", giving(NativeOutput(is_error=True, error=protocol))),
        scripted_tool("validation", schema=SCHEMA),
        scripted_tool("permission"),
        scripted_tool("approval"),
        scripted_tool("policy"),
        dataclasses.replace(scripted_tool("setup"), preflight=refusing("setup_required")),
        dataclasses.replace(scripted_tool("sandbox"), preflight=refusing("sandbox_violation")),
        scripted_tool("execution", failing()),
        scripted_tool("timeout", hang, timeout_ms=10),
        scripted_tool("cancellation", hang),
        scripted_tool("rate_limit", giving(NativeOutput(is_error=True, error=throttled))),
        scripted_tool("dependency", failing(kind=ConnectionError)),
        scripted_tool("result_size", max_inline_chars=1, persistence_policy_ref="drop_with_reason"),
        changed(scripted_tool("redaction"), declaration={"output_contract": OutputContract(redaction_rules=("*",))}),
    ]
    rules = [
        *allow,
        rule("deny", "*.permission"),
        rule("ask", "*.approval"),
        rule("deny", "*.policy", source="policy_settings"),
    ]
    names = [each.declaration.name for each in tools]
    ended = {}
    async with Runtime.open(tools=tools, rules=rules, approve="wait") as rt:
        surface = await rt.surface()
        for name in names:
            calling = asyncio.ensure_future(rt.call(name, {}, surface=surface))
            if name == "approval":
                (question,) = await asked_questions(rt)
                await rt.approvals.decide(question.approval_id, "deny")
            elif name == "cancellation":
                await rt.cancel(await begun(rt, tool_id="tool_test.cancellation"))
            ended[name] = (await calling).error
    recorded = {name: (error.error_class.value, error.error_code) for name, error in ended.items()}
    assert len(set(recorded.values())) == 14
    assert recorded["protocol"] == ("dependency_unavailable", "protocol_error")
    classes = [error_class for name, (error_class, _) in recorded.items() if name != "protocol"]
    assert len(set(classes)) == 13
    for error in ended.values():
        assert all((error.error_class, error.error_code, error.message))
        assert not any(noise in error.message for noise in ("Traceback", ".py", "line "))


@pytest.mark.requirement("AT-ERR-01")
async def test_an_error_names_its_policies_its_native_error_and_its_evidence(allow, call, rule):
    async def prove(job):
        proven = ToolError(error_class=ErrorClass.EXECUTION_FAILED, message="as asked", evidence_refs=("ev_1",))
        raise ToolFailure(proven)

    native = NativeError(error_class=ErrorClass.RATE_LIMITED, retry_after=30, native_error_ref={"code": 429})
    tools = [
        scripted_tool("policy"),
        scripted_tool("native", giving(NativeOutput(is_error=True, error=native))),
        scripted_tool("proven", prove),
    ]
    rules = [*allow, rule("deny", "*.policy", source="policy_settings", ref="no-policy")]
    async with Runtime.open(tools=tools, rules=rules) as rt:
        ended = {name: (await call(rt, name, {})).error for name in ("policy", "native", "proven")}
    assert ended["policy"].policy_refs == ("no-policy",)
    assert (ended["native"].native_error_ref, ended["native"].retry_after) == ({"code": 429}, 30)
    assert ended["proven"].evidence_refs == ("ev_1",)


async def test_every_refusal_says_in_which_phase_it_came(rule, call):
    checked = dataclasses.replace(scripted_tool("checked"), check_values=refusing("invalid_arguments"))
    refused = scripted_tool("refused", failing_with_class("rate_limited"))
    rules = [rule("allow", "*"), rule("deny", "*.denied")]
    async with Runtime.open(tools=[checked, refused, scripted_tool("denied")], rules=rules, approve="wait") as rt:
        results = {name: await call(rt, name, {}) for name in ("checked", "denied", "refused", "nobody")}
    assert {name: result.error.phase for name, result in results.items()} == {
        "checked": "validate_values",
        "denied": "permission",
        "refused": "execute",
        "nobody": "resolve_tool",
    }


@pytest.mark.parametrize(
    "error",
    [
        {"error_class": "rate_limited", "message": "half \ud800 a pair"},
        {"error_class": 5},
        {"error_class": "x", "retry": 7},
    ],
    ids=["half a pair", "no class", "no guidance"],
)
async def test_an_error_that_is_none_spoils_neither_its_result_nor_the_log(allow, call, sound_export, error):
    async def refuse(job):
        raise ToolFailure(ToolError(**error))

    async with Runtime.open(tools=[scripted_tool("refuse", refuse)], rules=allow, approve="wait") as rt:
        result = await call(rt, "refuse", {})
        await sound_export(rt)
    assert result.status == "failed"
    assert result.error.phase == "execute"


async def test_an_error_that_names_a_secret_is_reported_as_redacted_and_its_long_words_are_cut_afterwards(allow, call):
    async def fail(job):
        raise ValueError("x" * 1480 + "Qz7-first-last" + "y" * 4000)

    probe = scripted_tool("probe", fail)
    contract = InputContract(sensitive_fields=("token",))
    probe = dataclasses.replace(probe, declaration=replace(probe.declaration, input_contract=contract))
    async with Runtime.open(tools=[probe], rules=allow, approve="wait") as rt:
        result = await call(rt, "probe", {"token": "Qz7-first-last"})
    assert "Qz7" not in result.error.message
    assert len(result.error.message) <= 2000
    assert result.redaction_state == "partial"

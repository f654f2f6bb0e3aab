"""No sensitive value appears in anything that leaves a call, however hard a tool, a hook or a person repeats it."""

import asyncio
import dataclasses
import json
from base64 import b64decode
from decimal import Decimal
from typing import Annotated
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import Context, FunctionHook, Hook, PathArg, Runtime, Sensitive, ToolFailure, tool
from agenttool.codec import to_json, write
from agenttool.config import Setting
from agenttool.policy.approvals import Allow, Deny, Edit
from agenttool.policy.rule_settings import read_rules
from agenttool.policy.rules import Rule
from agenttool.ports.evidence import REDACTED
from agenttool.ports.output import FailedItem, NativeError, NativeOutput, Partial
from agenttool.records import (
    Behavior,
    ErrorClass,
    HookEvent,
    InputContract,
    Ref,
    RuleSource,
    ToolError,
    replace,
    text_item,
)
from agenttool.testing.fakes import scripted_tool

NAMES = ("password", "token", "note", "card")
SHAPES = {
    "text": ({"type": "string"}, lambda secret: secret),
    "list": ({"type": "array", "items": {"type": "string"}}, lambda secret: [secret, "harmless"]),
    "object": ({"type": "object"}, lambda secret: {"number": secret, "owner": "ada"}),
}

secrets = st.text("abcXYZ019 '\"\\/+=%&?é漢\t", min_size=6, max_size=20).map(lambda tail: f"Qz7{tail}!")


class Unlucky(Exception):
    """Something that a library raises with the whole request in its words."""


def fail_with(secret):
    raise Unlucky(f"request failed: token={secret!r} was refused ({secret})")


def refuse_with(secret):
    raise ToolFailure(
        ToolError(error_class=ErrorClass.EXECUTION_FAILED, error_code=f"E-{secret}", message=f"no {secret} here")
    )


OUTPUTS = {
    "says it": lambda secret: f"hello {secret}, goodbye {secret}",
    "structured": lambda secret: {"echo": {"deep": [secret]}, secret: 1},
    "as json text": lambda secret: json.dumps({"echo": secret}),
    "at length": lambda secret: "\n".join(f"{n} {secret}" for n in range(5000)),
    "in hints": lambda secret: NativeOutput(
        value="done",
        summary=secret,
        ui_facing_summary=secret,
        transcript_search_text=secret,
        ui_facing_rendering=[secret],
    ),
    "refs": lambda secret: NativeOutput(
        content=(text_item(secret),),
        resource_refs=(Ref(id="r", uri=f"https://x.example/{secret}", title=secret),),
        artifact_refs=(Ref(id="a", native_ref={"key": secret}),),
    ),
    "native error": lambda secret: NativeOutput(
        is_error=True, error=NativeError(message=secret, error_code=secret, native_error_ref={"body": secret})
    ),
    "partly": lambda secret: NativeOutput(
        partial=Partial(succeeded=("a",), failed=(FailedItem(item=secret, message=f"bad {secret}"),))
    ),
    "raises": fail_with,
    "refuses": refuse_with,
}

REPLIES = {
    "quiet": lambda _: None,
    "talks": lambda secret: {"message": secret, "progress": secret, "additional_context": [{"saw": secret}]},
    "stops": lambda secret: {"stop": f"because of {secret}"},
    "hints": lambda secret: {"permission_result": "ask", "permission_reason": f"look at {secret}"},
    "denies": lambda secret: {"permission_result": "deny", "permission_reason": f"look at {secret}"},
    "raises": fail_with,
}

ANSWERS = {
    "feedback": lambda secret, _: Allow(feedback=f"fine, {secret}"),
    "refusal": lambda secret, _: Deny(message=f"never with {secret}"),
    "edit": lambda _, shown: Edit(input={**shown, "plain": "edited"}),
    "yes": lambda *_: Allow(),
    "no": lambda *_: Deny(),
}


@st.composite
def scenarios(draw):
    """A tool with some sensitive fields, a call of it, and how everybody misbehaves."""
    fields = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(SHAPES)), min_size=1, max_size=3))
    sensitive = draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, unique=True))
    secret = draw(secrets)
    arguments = {name: SHAPES[shape][1](secret if name in sensitive else "open") for name, shape in fields.items()}
    return {
        "schema": {
            "type": "object",
            "properties": {"plain": {"type": "string"}, **{name: SHAPES[shape][0] for name, shape in fields.items()}},
            "additionalProperties": False,
        },
        "sensitive": sensitive,
        "secret": secret,
        "arguments": draw(
            st.sampled_from([arguments, arguments, arguments, {**arguments, "plain": 5}, {**arguments, "strange": 1}])
        ),
        "output": draw(st.sampled_from(sorted(OUTPUTS))),
        "reply": draw(st.sampled_from(sorted(REPLIES))),
        "place": draw(st.sampled_from(list(HookEvent))),
        "answer": draw(st.sampled_from(sorted(ANSWERS))),
        "rule": draw(st.sampled_from(["allow", "allow", "ask"])),
    }


def secretive_tool(scenario):
    async def work(job):
        job.report(f"using {scenario['secret']}", step=scenario["secret"])
        job.report(partial={"rows": [scenario["secret"]]})
        job.add_native_ids("mcp", {"server_id": scenario["secret"]})
        return OUTPUTS[scenario["output"]](scenario["secret"])

    plain = scripted_tool("probe", work, schema=scenario["schema"])
    contract = InputContract(sensitive_fields=tuple(scenario["sensitive"]))
    return dataclasses.replace(
        plain,
        declaration=replace(plain.declaration, input_contract=contract),
        execution_profile=replace(plain.execution_profile, supports_artifacts=True),
    )


def texts(value):
    """Give every text in a JSON value, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def reported_about(secret, value):
    """List the texts that give a secret away, in clear or as JSON spells it."""
    spelled = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    return [text for text in texts(value) if any(each in text for each in spelled)]


async def answered(rt, calling, answer):
    """Answer what is asked, and keep what the approver saw."""
    seen = []
    while not calling.done():
        await asyncio.sleep(0)
        for question in await rt.approvals.list():
            seen += [question.shown, *(to_json(update) for update in question.suggested_updates)]
            await rt.approvals.decide(question.approval_id, answer(question.shown))
    return seen


@pytest.fixture(scope="session")
def everything_recorded(run, opened, hook, sound_export):
    """Run a scenario, and return all that any reader could see of it."""

    def everything_recorded(scenario):
        secret = scenario["secret"]
        rules = [Rule(ref="r", behavior=Behavior(scenario["rule"]), source=RuleSource.CLI_ARG, tools=("*",))]
        talking = hook(scenario["place"], lambda _: REPLIES[scenario["reply"]](secret))

        async def recorded():
            async with opened([secretive_tool(scenario)], rules=rules, hooks=[talking]) as rt:
                surface = await rt.surface()
                calling = asyncio.ensure_future(rt.call("probe", scenario["arguments"], surface=surface))
                seen = await answered(rt, calling, lambda shown: ANSWERS[scenario["answer"]](secret, shown))
                return [to_json(await calling), seen, await sound_export(rt)]

        return run(recorded())

    return everything_recorded


@pytest.mark.requirement("AT-IO-06", "AT-RES-13")
@pytest.mark.slow
@given(scenario=scenarios())
def test_a_sensitive_value_is_in_no_record_no_event_and_no_error(everything_recorded, *, scenario):
    assert reported_about(scenario["secret"], everything_recorded(scenario)) == []


PLAIN = {
    "schema": {"type": "object", "properties": {"password": {"type": "string"}, "plain": {"type": "string"}}},
    "sensitive": ["password"],
    "secret": "Qz7 correct horse!",
    "arguments": {"password": "Qz7 correct horse!"},
    "output": "says it",
    "reply": "quiet",
    "place": HookEvent.PRE_TOOL_USE,
    "answer": "yes",
}


@pytest.mark.requirement("AT-IO-06")
@pytest.mark.parametrize(
    ("who", "how", "rule"),
    [
        ("output", "native error", "allow"),
        ("reply", "hints", "allow"),
        ("reply", "denies", "allow"),
        ("answer", "feedback", "ask"),
        ("answer", "refusal", "ask"),
    ],
)
def test_a_sensitive_value_that_is_repeated_reaches_no_record(everything_recorded, who, how, rule):
    assert reported_about(PLAIN["secret"], everything_recorded({**PLAIN, "rule": rule, who: how})) == []


@pytest.mark.requirement("AT-IO-06")
@pytest.mark.parametrize("behavior", ["deny", "ask", None])
def test_a_decision_about_a_sensitive_path_does_not_quote_it(run, opened, sound_export, behavior):
    @tool(read_only=True, open_world=False)
    async def read(path: Annotated[str, PathArg, Sensitive]) -> str:
        """Read a file. Not for folders."""
        return "read"

    members = {"name": "r", "behavior": behavior, "tool": "*", "path": "/vault/**"}
    rules = read_rules([Setting(members=members, source=RuleSource.PROJECT_SETTINGS)] if behavior else [])

    async def scenario():
        async with opened([read], rules=rules) as rt:
            surface = await rt.surface()
            calling = asyncio.ensure_future(rt.call("read", {"path": "/vault/Qz7-customer/x"}, surface=surface))
            seen = await answered(rt, calling, lambda _: Allow())
            return [to_json(await calling), seen, await sound_export(rt)]

    assert reported_about("Qz7-customer", run(scenario())) == []


@dataclasses.dataclass
class Login:
    """Who somebody is."""

    user: str
    token: Annotated[str, Sensitive]


@pytest.mark.requirement("AT-IO-06")
@pytest.mark.parametrize(
    "login",
    [
        "Qz7-first-last",
        json.dumps({"user": "ada", "token": "Qz7-first-last"}),
        [{"user": "ada", "token": "Qz7-first-last"}],
        {"user": "ada", "token": {"is": "Qz7-first-last"}},
        {"user": "ada", "token": "Qz7-first-last", "again": "Qz7-first-last"},
        {"user": ["Qz7-first-last"]},
    ],
)
def test_a_sensitive_value_that_is_sent_in_the_wrong_place_is_in_no_record(run, opened, sound_export, login):
    @tool(read_only=True, open_world=False)
    async def enter(login: Login, others: list[Login]) -> str:
        """Log in. Not for guests."""
        return "in"

    async def scenario():
        async with opened([enter]) as rt:
            surface = await rt.surface()
            results = [
                to_json(await rt.call("enter", arguments, surface=surface))
                for arguments in ({"login": login, "others": []}, {"login": login, "others": login, "x": login})
            ]
            return [results, await sound_export(rt)]

    results, exported = run(scenario())
    assert {result["error"]["error_class"] for result in results} == {"schema_validation_failed"}
    assert reported_about("Qz7-first-last", [results, exported]) == []


@pytest.mark.requirement("AT-IO-06")
def test_a_message_that_is_cut_in_the_middle_of_a_secret_does_not_keep_the_half(run, opened):
    @tool
    async def fail(padding: int, token: Annotated[str, Sensitive]) -> str:
        """Fail at length. Not for success."""
        raise Unlucky("a" * padding + token + "b" * 4000)

    async def scenario():
        allow = Rule(ref="r", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
        async with opened([fail], rules=[allow]) as rt:
            surface = await rt.surface()
            return [
                to_json(await rt.call("fail", {"padding": padding, "token": "Qz7-first-last"}, surface=surface))
                for padding in range(1400, 1500, 5)
            ]

    assert reported_about("Qz7-first", run(scenario())) == []


PEM = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7line\n-----END KEY-----"
TYPED = {
    "key": ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", ["a0eebc99", "A0EEBC99"]),
    "amount": ("1234567.50", ["1234567.50"]),
    "pin": (471199, ["471199"]),
    "pem": (PEM, ["MIIEpAIBAAKCAQEA7line"]),
    "names": ({"Qz7-marker-name": 1}, ["Qz7-marker-name"]),
    "coded": ("T2xkIGhvcnNlIHN0YXBsZQ==", ["Old horse", "T2xkIGhvc"]),
}


SHOWN = " ".join([*["[redacted]"] * 4, "b'[redacted]' b'[redacted]' [redacted] ['[redacted]']"])


def test_a_sensitive_value_that_was_converted_and_written_again_is_in_no_record_and_no_hook(tmp_path):
    recorded = []

    @tool(read_only=True, open_world=False)
    async def probe(
        *,
        key: Annotated[UUID, Sensitive],
        amount: Annotated[Decimal, Sensitive],
        pin: Annotated[int, Sensitive],
        pem: Annotated[str, Sensitive],
        names: Annotated[dict[str, int], Sensitive],
        coded: Annotated[bytes, Sensitive],
    ) -> str:
        """Repeat what it gets. Not for secrets."""
        plain = b64decode(coded) if coded.startswith(b"T2xk") else coded
        texts = f"{coded} {plain} {plain.decode()} {[*names]}"
        return f"{key} {amount} {pin} {pem.splitlines()[1]} {texts}"

    async def listen(query):
        recorded.append(repr((query.input, query.output)))

    hook = Hook(name="listen", event=HookEvent.POST_TOOL_USE, runner=FunctionHook(listen))

    async def scenario():
        store = f"sqlite:{tmp_path / 'agenttool.db'}"
        async with Runtime.open(store=store, tools=[probe], hooks=[hook]) as rt:
            arguments = {name: value for name, (value, _) in TYPED.items()}
            result = await rt.call("probe", arguments, surface=await rt.surface())
            return result, [repr(record) async for record in rt.journal.export()]

    result, records = asyncio.run(scenario())
    assert (result.status, result.content[0].text) == ("succeeded", SHOWN)
    stored = (tmp_path / "agenttool.db").read_bytes().decode("latin-1")
    for form in (form for _, forms in TYPED.values() for form in forms):
        assert form not in "".join([*records, *recorded, stored]), form


DIVIDERS = {
    "color": "\x1b[0m",
    "reset": "\x1bc",
    "bell": "\x07",
    "zero width": "\u200b",
    "blank": "\u2800",
    "return": "\r",
}


@pytest.mark.parametrize("divider", DIVIDERS.values(), ids=DIVIDERS)
async def test_a_secret_that_controls_or_invisible_characters_divide_is_in_no_log_record_or_message(divider, caplog):
    spelled = "Qz7-kestrel-9941"

    @tool(read_only=True, open_world=False)
    async def fail(context: Context, token: Annotated[str, Sensitive]) -> str:
        """Fail. Not for anything else."""
        context.progress(divider.join(token))
        raise ValueError(divider.join(token))

    async with Runtime.open(tools=[fail]) as rt:
        result = await rt.call("fail", {"token": spelled}, surface=await rt.surface())
        written = [write(each).decode() async for each in rt.journal.export()]
    seen = "".join([*written, *(each.getMessage() for each in caplog.records), write(result).decode()])
    plain = seen.replace("\\\\", "\\").replace(json.dumps(divider)[1:-1], "").replace(divider, "")
    assert spelled not in plain
    assert "kestrel" not in plain


@pytest.mark.parametrize(
    ("secret", "spelled"),
    [
        ("pass-caf\u00e9-4711", "pass-cafe\u0301-4711"),
        ("pass-cafe\u0301-4711", "pass-caf\u00e9-4711"),
        ("Qz7-kestrel", "\u200b".join("Qz7-kestrel")),
        ("Qz7-kestrel", "Qz7\u00ad-\u2060kestrel"),
        ("Qz7-kestrel", "Qz7-\x1b[31mkestrel"),
        ("pass-caf\u00e9", "p\u200bass-cafe\u200b\u0301"),
    ],
)
@pytest.mark.parametrize("shape", [lambda text: text, lambda text: {"name": [text, "rest"]}], ids=["text", "value"])
async def test_another_spelling_of_a_secret_is_masked(secret, spelled, shape):
    @tool(read_only=True, open_world=False)
    async def echo(token: Annotated[str, Sensitive]) -> object:
        """Return something. Not for anything else."""
        return shape(f"before {spelled} after")

    async with Runtime.open(tools=[echo]) as rt:
        result = await rt.call("echo", {"token": secret}, surface=await rt.surface())
    assert result.value == shape(f"before {REDACTED} after")

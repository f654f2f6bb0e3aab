"""Schemas that providers refuse, or that were made to break something: they fail alone, and no call fails with them."""

import json

import pytest

from agenttool import Runtime
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.schema.compile import compile_schema
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


def closed(properties, required=None, **more):
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False, **more}


def nested(levels):
    return closed({"a": nested(levels - 1)}) if levels else {"type": "string"}


ROUND = {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}
LIST = {"N": closed({"next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}})}

HOSTILE = {
    "looks around": closed({"e": {"type": "string", "pattern": "^(?!x).*$"}}),
    "looks back": closed({"e": {"type": "string", "pattern": r"(a)\1"}}),
    "refers to itself": closed({"next": {"$ref": "#"}}, []),
    "goes round": closed({"x": {"$ref": "#/$defs/A"}}, **{"$defs": ROUND}),
    "is round": {"$ref": "#/$defs/A", "$defs": ROUND},
    "never ends": closed({"list": {"$ref": "#/$defs/N"}}, **{"$defs": LIST}),
    "deep": nested(50),
    "many choices": closed({"e": {"enum": [f"v{number}" for number in range(2000)]}}),
    "long choices": closed({"e": {"enum": [f"{number:0100}" for number in range(300)]}}),
    "long names": closed({f"{number:0200}": {"type": "string"} for number in range(700)}),
    "many members": closed({f"p{number}": {"type": "string"} for number in range(6000)}),
    "no choice": closed({"e": {"enum": []}}, []),
    "not": closed({"e": {"not": {"type": "null"}}}),
    "if": closed({"e": {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "integer"}}}),
    "if at the root": {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
    "objects as choices": closed({"e": {"const": {"a": [1]}}}),
    "strange names": closed({"имя": {"type": "string"}, "a b": {}, "": {}, "$ref": {"type": "string"}}),
    "anything": {},
    "nothing": closed({"e": False}, []),
    "places of an older draft": closed(
        {"e": {"type": "array", "items": [{"type": "string"}], "additionalItems": False}},
        **{"$schema": "http://json-schema.org/draft-07/schema#"},
    ),
    "anchors": closed({"b": {"$dynamicRef": "#x"}}, **{"$defs": {"q": {"$dynamicAnchor": "x", "type": "string"}}}),
}


def names_of(request):
    written = request["tools"]
    declared = written[0].get("function_declarations", written)
    return [each.get("function", each).get("name") for each in declared]


def unread(schema):
    """Find what providers refuse even without strict mode."""
    pending, found = [schema], []
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pattern = node.get("pattern")
            found += [pattern] if isinstance(pattern, str) and ("(?!" in pattern or r"\1" in pattern) else []
            found += [each for each in node.get("patternProperties", {}) if "(?!" in each]
            pending += node.values()
        elif isinstance(node, list):
            pending += node
    return found


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_schema_costs_no_other_tool_and_no_request(provider, kind):
    good, bad = scripted_tool("good"), scripted_tool("bad", schema=HOSTILE[kind])
    async with Runtime.open(tools=[bad, good], rules=ALLOW) as rt:
        model = await rt.tools_for(provider)
        request = model.request()
        left_out = model.left_out
        turn = await model.answer(reply(provider, ModelCall(name="good", arguments={}, call_id="call_1")))
    assert json.loads(json.dumps(request)) == request
    assert "good" in names_of(request)
    assert unread(request) == []
    assert [each.status for each in turn.results] == ["succeeded"]
    if "bad" not in names_of(request):
        (absent,) = left_out
        assert (absent.name, absent.may_change) == ("test.bad", True)
        assert absent.would_change


@pytest.mark.parametrize("provider", ["openai", "openai_responses"])
@pytest.mark.parametrize("kind", [each for each in HOSTILE if each not in {"strange names", "never ends"}])
async def test_what_cannot_be_strict_is_not_and_says_why(provider, kind):
    async with Runtime.open(tools=[scripted_tool("bad", schema=HOSTILE[kind])]) as rt:
        model = await rt.tools_for(provider)
        (sent,) = model.request()["tools"]
    assert sent.get("function", sent)["strict"] is False
    assert model.notes["test.bad"].startswith("not strict: ")


@pytest.mark.parametrize("provider", FORMATS)
async def test_a_schema_of_an_older_draft_is_sent_as_the_newest_has_it(provider):
    """Providers hold schemas to draft 2020-12, and refuse the whole request for one that it does not know."""
    number = {"type": "integer", "minimum": 0, "exclusiveMinimum": True}
    fourth = closed({"e": number}, **{"$schema": "http://json-schema.org/draft-04/schema#"})
    tools = [scripted_tool("one", schema=fourth), scripted_tool("two", schema=HOSTILE["places of an older draft"])]
    async with Runtime.open(tools=tools, rules=ALLOW) as rt:
        request = (await rt.tools_for(provider)).request()
    sent = request["tools"][0].get("function_declarations", request["tools"])
    for each in (tool.get("function", tool) for tool in sent):
        schema = next(each[key] for key in ("parameters", "input_schema", "parameters_json_schema") if key in each)
        assert "$schema" not in schema
        compile_schema(schema)


@pytest.mark.parametrize("provider", FORMATS)
async def test_what_a_provider_schema_leaves_out_is_still_enforced(provider):
    probe = scripted_tool("bad", schema=HOSTILE["looks around"])
    async with Runtime.open(tools=[probe], rules=ALLOW) as rt:
        model = await rt.tools_for(provider)
        request = json.dumps(model.request())
        asked = [ModelCall(name="bad", arguments={"e": word}, call_id=f"call_{word}") for word in ("xy", "y")]
        turn = await model.answer(reply(provider, *asked))
    assert provider == "gemini" or "It matches the pattern ^(?!x).*$" in request
    assert [each.status for each in turn.results] == ["failed", "succeeded"]
    assert probe.executor.inputs == [{"e": "y"}]

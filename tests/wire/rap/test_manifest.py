"""A manifest is valid as a whole, or not at all."""

import json

import pytest

from agenttool.adapters.rap.wire import read_manifest, write
from agenttool.errors import RecordError

PROBE = {
    "name": "read_probe",
    "description": "Read one soil probe",
    "inputSchema": {"type": "object", "properties": {"bed": {"type": "integer"}}, "additionalProperties": False},
    "annotations": {"readOnly": True, "x-greenhouse-zone": {"side": "north"}},
    "displayScript": '"probe of bed " + args.bed',
}
GREENHOUSE = {
    "name": "greenhouse",
    "description": "Probes and valves of one greenhouse",
    "endpoint": "https://gh.example.test/rap/run",
    "needsMigration": True,
    "tools": [PROBE, {"name": "ring", "description": "Ring", "inputSchema": {"type": "object"}}],
}


def spelled(members):
    return json.dumps(members).encode()


def with_tool(**members):
    return spelled(GREENHOUSE | {"tools": [GREENHOUSE["tools"][1], PROBE | members]})


def test_a_manifest_reads_and_writes_back_the_same():
    manifest = read_manifest(spelled(GREENHOUSE))
    assert json.loads(write(manifest)) == GREENHOUSE
    assert manifest.tools[0].annotations == PROBE["annotations"]


def test_what_is_optional_may_be_absent_or_null():
    bare = {"name": "g", "endpoint": "http://h", "tools": [{**PROBE, "annotations": None, "displayScript": None}]}
    manifest = read_manifest(spelled(bare | {"description": None, "x-ours": 1}))
    assert (manifest.description, manifest.needs_migration, manifest.tools[0].annotations) == (None, False, None)


@pytest.mark.requirement("RAP-146", "RAP-147", "RAP-148", "RAP-149", "RAP-150", "RAP-151")
@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        (spelled(GREENHOUSE | {"name": ""}), "/name"),
        (spelled(GREENHOUSE | {"name": "n" * 129}), "/name"),
        (spelled({key: value for key, value in GREENHOUSE.items() if key != "name"}), "/name"),
        (spelled({key: value for key, value in GREENHOUSE.items() if key != "endpoint"}), "/endpoint"),
        *[
            (spelled(GREENHOUSE | {"endpoint": url}), "")
            for url in (
                "http://h:0/x",
                "http://h/\r\nX: y",
                "http://u:p@h/x",
                "http://h\u00e9/x",
                "",
                "/invoke",
                "gh.example.test/run",
                "ftp://h/x",
                "file:///etc/passwd",
                "http://",
                "http://h:x/",
            )
        ],
        (spelled(GREENHOUSE | {"tools": []}), "/tools"),
        (spelled(GREENHOUSE | {"tools": [PROBE, PROBE]}), ""),
        (spelled(GREENHOUSE | {"needsMigration": None}), "/needsMigration"),
        *[
            (with_tool(name=name), "/tools/1/name")
            for name in (
                "",
                "n" * 129,
                "read probe",
                "sonde_lüften",
                "a/b",
                "a.b",
                "a\n",
                "\N{FULLWIDTH DIGIT ONE}",
                "a:b",
                None,
            )
        ],
        (with_tool(description=None), "/tools/1/description"),
        (with_tool(inputSchema=True), "/tools/1/inputSchema"),
        (with_tool(inputSchema={"type": 5}), "/tools/1/inputSchema"),
        (with_tool(inputSchema={"$ref": "https://evil.example.test/s.json"}), "/tools/1/inputSchema"),
    ],
)
def test_one_fault_makes_the_whole_manifest_invalid_with_a_pointer(data, pointer):
    with pytest.raises(RecordError) as refusal:
        read_manifest(data)
    assert refusal.value.pointer == pointer


@pytest.mark.requirement("RAP-148", "RAP-165")
@pytest.mark.parametrize(
    ("members", "odd"),
    [
        ({"annotations": []}, ("annotations",)),
        ({"annotations": {"readOnly": "yes", "longRunning": 1}}, ("readOnly", "longRunning")),
        ({"annotations": {"requiresAuth": True}}, ("requiresAuth",)),
        ({"displayScript": 5}, ("displayScript",)),
        ({"annotations": {"readOnly": None, "x-acme-tier": 3}}, ()),
    ],
)
def test_a_hint_that_makes_no_sense_costs_nothing_but_itself(members, odd):
    manifest = read_manifest(with_tool(**members))
    assert (len(manifest.tools), manifest.tools[1].invalid_hints) == (2, odd)


@pytest.mark.requirement("RAP-152")
def test_a_schema_is_read_by_the_draft_that_it_names_and_else_as_2020_12():
    pair = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}  # a list of schemas until 2019-09
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"pair": pair}}
    read_manifest(with_tool(inputSchema=old))
    with pytest.raises(RecordError, match="not a usable JSON Schema"):
        read_manifest(with_tool(inputSchema={"properties": {"pair": pair}}))

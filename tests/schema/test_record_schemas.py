import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values, records

from agenttool.codec import from_json, to_json
from agenttool.errors import RecordError
from agenttool.records import CORE_OBJECTS, RECORD_TYPES
from agenttool.schema.compile import Checker, compile_schema
from agenttool.schema.record_schemas import schema_of
from write_schemas import SCHEMA_FILES

SCHEMAS = Path(__file__).parents[2] / "schemas"
PUBLISHED = dict(list(SCHEMA_FILES.items())[:15])
KINDS = [(name, kind) for name, kinds in CORE_OBJECTS.items() for kind in kinds]


@pytest.mark.parametrize("name", SCHEMA_FILES)
def test_the_schema_in_the_repository_is_the_one_of_the_records(name):
    assert json.loads((SCHEMAS / SCHEMA_FILES[name]).read_text()) == schema_of(name), "run `make schemas`"


def test_every_object_has_a_schema_and_no_other_file_stands_there():
    assert set(SCHEMA_FILES) == set(CORE_OBJECTS)
    assert {path.name for path in SCHEMAS.iterdir()} == set(SCHEMA_FILES.values())


@given(st.sampled_from(KINDS).flatmap(lambda each: st.tuples(st.just(each[0]), records(each[1]))))
def test_our_schema_accepts_every_record_of_its_kind(named):
    name, record = named
    assert compile_schema(schema_of(name)).misfits(to_json(record)) == []


PROVES = {
    "tool_declaration": "AT-DECL-01",
    "tool_interface": "AT-IFACE-01",
    "tool_surface": "AT-SURF-01",
    "tool_invocation": "AT-INV-01",
    "tool_permission_profile": "AT-PERM-01",
    "tool_permission_decision": "AT-PERM-12",
    "tool_input_mutation": "AT-HOOK-13",
    "tool_hook": "AT-HOOK-01",
    "tool_scheduler_policy": "AT-SCHED-01",
    "deferred_tool_ref": "AT-DEFER-02",
    "tool_result": "AT-RES-01",
    "tool_result_persistence": "AT-PERS-08",
    "tool_progress": "AT-PROG-01",
    "tool_execution_profile": "AT-EXEC-01",
    "tool_event": "AT-EVT-01",
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.requirement(i, "AT-VER-06")) for n, i in PROVES.items()]
)
@given(data=st.data())
def test_the_published_schema_accepts_every_record_that_we_can_write(published_schemas, name, data):
    record = data.draw(records(RECORD_TYPES[name]))
    assert published_schemas[name].misfits(to_json(record)) == []


@st.composite
def damaged(draw, name):
    """A record with some member, on any level, replaced or taken out."""
    document = to_json(draw(records(RECORD_TYPES[name])))
    spot = document
    while True:
        key = draw(st.sampled_from(sorted(spot) if isinstance(spot, dict) else range(len(spot))))
        inner = spot[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
            break
        spot = inner
    if isinstance(spot, dict) and draw(st.booleans()):
        del spot[key]
    else:
        spot[key] = draw(json_values())
    return document


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
@given(data=st.data())
def test_whatever_our_schema_accepts_the_published_one_accepts(published_schemas, name, data):
    document = data.draw(damaged(name))
    if compile_schema(schema_of(name)).accepts(document):
        assert published_schemas[name].misfits(document) == []


@pytest.mark.parametrize("name", PUBLISHED)
@given(data=st.data())
def test_whatever_our_schema_accepts_can_be_read(name, data):
    document = data.draw(damaged(name))
    if compile_schema(schema_of(name)).accepts(document):
        # The one known difference: some names cannot be preserved.
        assert refusal(document, RECORD_TYPES[name]) in ("", "a member may not be named")


def refusal(document, kind):
    try:
        from_json(document, kind)
    except RecordError as error:
        return str(error).split(";")[0].split(" '")[0].split(' "')[0]
    return ""


def test_an_open_list_is_open_and_a_closed_one_closed_in_the_schema():
    definitions = schema_of("tool_declaration")["$defs"]
    assert "enum" not in definitions["ToolKind"]
    assert "function" in definitions["ToolKind"]["examples"]
    assert set(definitions["Lifecycle"]["enum"]) >= {"draft", "retired"}


def test_a_mapping_is_held_to_the_shape_of_its_source_only():
    check = Checker(schema_of("tool_external_mapping"))
    assert check.accepts({"source": "mcp", "tool_name": "search"})
    assert not check.accepts({"source": "mcp", "tool_name": 5})
    assert check.accepts({"source": "carrier_pigeon", "tool_name": 5})
    assert check.accepts({"tool_name": 5})


def test_null_is_refused_where_absence_is_meant_and_accepted_where_it_is_a_value():
    check = Checker(schema_of("tool_invocation"))
    call = {"schema_version": "0.2.0", "invocation_id": "i", "tool_id": "t", "status": "planned", "created_at": "now"}
    assert check.accepts({**call, "model_input": None})
    assert [misfit.pointer for misfit in check.misfits({**call, "surface_id": None})] == ["/surface_id"]

import pytest

from agenttool.codec import read, write
from agenttool.errors import RecordError
from agenttool.records import (
    AccessKind,
    ClosedEnum,
    ErrorClass,
    EventType,
    InvocationStatus,
    OpenEnum,
    ResultStatus,
    ToolKind,
    ToolSurface,
    WriteEffect,
)


def test_an_open_list_keeps_a_value_it_does_not_know():
    kind = ToolKind("quantum_oracle")
    assert kind == "quantum_oracle"
    assert not kind.is_listed
    assert ToolKind.FUNCTION.is_listed


def test_an_unknown_value_is_not_remembered():
    ToolKind("seen_once")
    assert "seen_once" not in [member.value for member in ToolKind]
    assert not ToolKind("seen_once").is_listed


def test_a_value_that_is_no_word_is_refused_by_an_open_list_too():
    with pytest.raises(ValueError, match="5"):
        ToolKind(5)


@pytest.mark.requirement("AT-VER-07")
@pytest.mark.parametrize("listing", OpenEnum.__subclasses__())
def test_every_open_list_tolerates_a_value_nobody_listed(listing):
    assert listing("nobody_listed_this") == "nobody_listed_this"


@pytest.mark.requirement("AT-VER-07")
def test_an_unknown_value_is_never_read_as_success_permission_or_an_end():
    assert ResultStatus("splendid").is_error
    assert not InvocationStatus("splendid").is_terminal
    assert not EventType("tool.invocation.splendid").is_terminal
    assert not WriteEffect("splendid").is_harmless
    assert not ErrorClass("splendid").is_listed
    assert not AccessKind("splendid").is_listed


def test_a_closed_list_refuses_a_value_it_does_not_know():
    surface = b'{"schema_version":"0.2.0","surface_id":"s","scope":"turn","deferred_tools":[%s]}'
    entry = b'{"tool_id":"t","name":"n","loading_state":"%s"}'
    assert read(surface % (entry % b"deferred"), ToolSurface).deferred_tools
    with pytest.raises(RecordError) as refused:
        read(surface % (entry % b"dreaming"), ToolSurface)
    assert refused.value.pointer == "/deferred_tools/0/loading_state"


def test_an_unknown_value_is_written_as_it_came():
    line = b'{"record_type":"tool_surface","schema_version":"0.2.0","surface_id":"s","scope":"galaxy"}'
    assert write(read(line, ToolSurface)) == line


def test_no_list_is_both_open_and_closed():
    assert not set(OpenEnum.__subclasses__()) & set(ClosedEnum.__subclasses__())

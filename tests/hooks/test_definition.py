import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.hooks.definition import HookSetting, read_hook
from agenttool.records import HookEvent

PLAIN = {"name": "guard", "event": "pre_tool_use", "command": ["guard"]}


def test_a_table_is_read_with_what_it_leaves_out_filled_in():
    assert read_hook(PLAIN) == HookSetting(
        name="guard",
        events=(HookEvent.PRE_TOOL_USE,),
        command=("guard",),
        tools=("*",),
        timeout_s=10.0,
        is_trusted=False,
        env={},
        pass_env=(),
    )


def test_everything_that_may_be_written_is_read():
    table = {
        "name": "guard",
        "event": ["pre_tool_use", "post_tool_use"],
        "command": "python3 'my guard.py' --mode=$HOME",
        "tool": ["files.*", "fetch"],
        "timeout_s": 2,
        "trusted": True,
        "env": {"MODE": "strict"},
        "pass_env": ["HOME"],
        "on_failure": "fail",
    }
    assert read_hook(table) == HookSetting(
        name="guard",
        events=(HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE),
        command=("python3", "my guard.py", "--mode=$HOME"),
        tools=("files.*", "fetch"),
        timeout_s=2,
        is_trusted=True,
        env={"MODE": "strict"},
        pass_env=("HOME",),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": "pre_tool_use"}, "a hook has no 'events'; did you mean 'event'?"),
        ({"shell": True}, "a hook has no 'shell'; use one of name, event"),
        ({"name": None}, "name must be a text, got None; write"),
        ({"name": " "}, "name must be a text, got ' '"),
        ({"event": "before"}, "event must be one or more of pre_tool_use, "),
        ({"event": []}, "event must be one or more of"),
        ({"event": None}, "event must be one or more of"),
        ({"command": None}, "command must be a text or a list of texts"),
        ({"command": ["a", 1]}, "command must be a text or a list of texts"),
        ({"command": "say 'hello"}, "cannot be split into words: No closing quotation"),
        ({"command": "a | b"}, 'no shell reads a command, got \'|\'; write command = ["sh", "-c"'),
        ({"command": "  "}, "command must be a text or a list of texts"),
        ({"command": ["a\0b"]}, "command must be a text or a list of texts"),
        ({"tool": 5}, "tool must be a text or a list of texts, got 5"),
        ({"timeout_s": "5"}, "timeout_s must be seconds above zero, got '5'"),
        ({"timeout_s": 0}, "above zero"),
        ({"timeout_s": float("inf")}, "above zero"),
        ({"timeout_s": True}, "above zero"),
        ({"trusted": "yes"}, "trusted must be true or false"),
        ({"env": {"A": 1}}, "env must be a table of texts"),
        ({"env": {"A=B": "x"}}, "env must be a table of texts"),
        ({"env": "A"}, "env must be a table of texts"),
        ({"pass_env": []}, "pass_env must be a text or a list of texts"),
        ({"on_failure": "continue"}, "on_failure must be \"fail\", got 'continue'; if a failure does not matter"),
    ],
)
def test_what_is_wrong_is_refused_in_words_that_help(change, message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 -- the words are compared below
        read_hook(PLAIN | change)
    assert message in str(refused.value)


_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.sampled_from(["name", "event", "command", "tool", "timeout_s", "trusted", "env", "pass_env"]), _json)
def test_whatever_stands_there_is_read_or_refused(member, value):
    try:
        written = read_hook(PLAIN | {member: value})
    except ValueError as error:
        assert member in str(error)  # noqa: PT017 -- either end is right
    else:
        assert written.command
        assert written.events
        assert written.tools


def test_an_error_about_variables_does_not_show_their_values():
    with pytest.raises(ValueError, match="env must be a table of texts, got dict") as caught:
        read_hook({"name": "x", "event": "pre_tool_use", "command": "x", "env": {"TOKEN": "hunter-2", "A": 1}})
    assert "hunter-2" not in str(caught.value)

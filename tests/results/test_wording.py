import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.results.wording import MAX_MESSAGE_CHARS, clean_message, shorten


def raised(error):
    raise error from ValueError("inner-value")


@pytest.mark.requirement("AT-ERR-15")
def test_a_stack_trace_is_not_passed_on_and_what_was_said_is():
    try:
        raised(RuntimeError("the outer message"))
    except RuntimeError:
        message = clean_message(f"could not run:\n{traceback.format_exc()}")
    assert "the outer message" in message
    assert "could not run" in message
    assert not any(noise in message for noise in ("Traceback", "File ", "line ", "direct cause", ".py"))


def test_a_group_of_exceptions_leaves_no_trace_either():
    group = ExceptionGroup("several", [ValueError("one"), TypeError("two")])
    try:
        raised(group)
    except ExceptionGroup:
        message = clean_message(traceback.format_exc())
    assert "test_wording.py" not in message


@pytest.mark.parametrize(
    "frame",
    [
        "    at Object.<anonymous> (/srv/app/index.js:3:9)",
        "\tat com.example.Main.run(Main.java:42)",
        "    at /srv/app/index.js:3:9",
        "goroutine 1 [running]:",
        '  File "/srv/tool.py", line 3, in run',
    ],
)
def test_frames_of_other_languages_go_too(frame):
    assert clean_message(f"TypeError: x is not a function\n{frame}\n{frame}") == "TypeError: x is not a function"


def test_terminal_codes_and_control_characters_go_and_layout_stays():
    assert clean_message("\x1b[31mred\x1b[0m\x00 text\r\n\tindented\x07 \x1b]0;title\x07") == "red text\n\tindented"
    assert clean_message("half \ud800 pair") == "half ? pair"


@given(st.text(), st.integers(0, 200))
def test_a_message_is_never_longer_than_its_limit_and_can_be_written(text, limit):
    message = clean_message(text, limit=limit)
    assert len(message) <= limit
    message.encode()


def test_the_beginning_and_the_end_of_a_long_message_stay():
    message = clean_message("begin " + "x" * 5000 + " end")
    assert len(message) <= MAX_MESSAGE_CHARS
    assert message.startswith("begin")
    assert message.endswith("end")
    assert "characters left out" in message
    assert shorten("short", 10) == "short"

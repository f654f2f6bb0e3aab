import json

from hypothesis import given
from hypothesis import strategies as st

from agenttool.results.preview import ReadHint, TextRange, count_lines, head_and_tail, preview

HINT = ReadHint(payload_id="payload:sha256:abc", tool="read_result")


def call_in(shown):
    """The call that a preview ends with: the name of the tool, and its arguments."""
    last = shown.splitlines()[-1]
    tool, arguments = last.removeprefix("To read more, call ").split(" with ", 1)
    return tool, json.loads(arguments)


def test_a_long_text_shows_its_head_its_tail_and_how_to_read_the_middle():
    text = "".join(f"this is line {number}\n" for number in range(1, 1001))
    shown = preview(text, budget=600, hint=HINT)
    assert len(shown) <= 600
    lines = shown.splitlines()
    assert lines[0] == f"[1000 lines, {len(text)} characters; this is a preview]"
    assert lines[1] == "   1| this is line 1"
    assert lines[-2] == "1000| this is line 1000"
    tool, arguments = call_in(shown)
    first = arguments["start_line"]
    assert (tool, arguments["payload_id"]) == ("read_result", "payload:sha256:abc")
    assert lines[first] == f"… lines {first} to {int(lines[first + 1].split('|')[0]) - 1} of 1000 are left out …"
    assert arguments["end_line"] == min(first + 199, int(lines[first + 1].split("|")[0]) - 1)


def test_what_is_left_out_is_exactly_what_lies_between():
    text = "\n".join(f"{number}" for number in range(1, 501))
    shown = preview(text, budget=800, hint=HINT)
    numbers = [int(line.split("|")[0]) for line in shown.splitlines()[1:-1] if "|" in line]
    first = call_in(shown)[1]["start_line"]
    head = [number for number in numbers if number < first]
    tail = [number for number in numbers if number >= first]
    assert head == list(range(1, first))
    assert tail == list(range(tail[0], 501))
    assert f"… lines {first} to {tail[0] - 1} of 500 are left out …" in shown


def test_one_very_long_line_is_shown_by_characters():
    text = "x" * 5000 + "THE END"
    shown = preview(text, budget=600, hint=HINT)
    arguments = call_in(shown)[1]
    assert text[: arguments["offset"]] in shown
    assert "THE END" in shown
    assert arguments["limit"] == 4000


@given(
    st.text(max_size=400) | st.lists(st.text(max_size=30), max_size=60).map("\n".join),
    st.integers(0, 700),
    st.sampled_from([HINT, None]),
)
def test_a_preview_never_exceeds_its_budget_and_can_be_written(text, budget, hint):
    shown = preview(text, budget=budget, hint=hint)
    assert len(shown) <= budget
    shown.encode()
    assert shown == preview(text, budget=budget, hint=hint)


@given(st.text(max_size=300).filter(lambda text: len(text) > 0))
def test_how_to_read_more_survives_any_budget_that_can_hold_it(text):
    shown = preview(text * 40, budget=400, hint=HINT)
    if len(text) * 40 > 400:
        tool, arguments = call_in(shown)
        assert (tool, arguments["payload_id"]) == ("read_result", "payload:sha256:abc")


def test_nothing_is_said_about_more_when_there_is_no_more():
    assert "To read more" not in preview("short\ntext", budget=500, hint=HINT)
    assert preview("", budget=500, hint=HINT) == "[0 lines, 0 characters; this is a preview]"


lines = st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=40), min_size=2)


def test_lines_are_counted_as_an_editor_counts_them():
    assert [count_lines(text) for text in ("", "a", "a\n", "a\nb", "\n\n")] == [0, 1, 1, 2, 2]


@given(lines, st.integers(0, 600))
def test_every_shown_line_is_a_line_of_the_text_under_its_own_number(texts, room):
    shown = head_and_tail("\n".join(texts), room)
    assert len(shown.text) <= max(room, 0)
    if not shown.in_lines or shown.missing_from == 1:
        return
    numbered = [line for line in shown.text.split("\n") if not line.startswith("… lines ")]
    for line in numbered:
        number, _, text = line.partition("| ")
        assert texts[int(number) - 1] == text
    assert len(numbered) == shown.missing_from - 1 + count_lines("\n".join(texts)) - shown.missing_to + 1


@given(st.text(max_size=300), st.integers(0, 400))
def test_what_is_missing_of_one_long_line_lies_between_what_is_shown(text, room):
    text = text.replace("\n", "")
    shown = head_and_tail(text, room)
    assert len(shown.text) <= room
    if shown.missing_from < shown.missing_to and room >= 120:
        assert shown.text.startswith(text[: shown.missing_from])
        assert shown.text.endswith(text[shown.missing_to :])
    elif room >= len(text):
        assert shown.text == text


def test_a_long_line_among_short_ones_is_cut_and_counted():
    shown = head_and_tail("short\n" + "x" * 900 + "\nshort again", 2000).text
    assert shown.split("\n") == ["1| short", f"2| {'x' * 300}… (600 more characters)", "3| short again"]


@given(
    pieces=st.lists(st.text(alphabet="ab\n", max_size=8), max_size=6),
    first=st.integers(1, 12),
    count=st.integers(1, 8),
    in_lines=st.booleans(),
)
def test_a_range_is_the_same_however_the_text_is_split(pieces, first, count, in_lines):
    whole = "".join(pieces)
    lines = whole.splitlines(keepends=True)
    expected = "".join(lines[first - 1 : first - 1 + count]) if in_lines else whole[first : first + count]
    text_range = TextRange(first=first, count=count, in_lines=in_lines)
    for piece in [*pieces, ""]:
        if not text_range.feed(piece):
            break
    taken = "".join(text_range._taken)
    assert taken == expected
    before = sum(len(line) for line in lines[: first - 1]) if in_lines else first
    assert text_range.has_more == (before + len(taken) < len(whole))


def test_the_title_of_a_preview_counts_one_line_in_the_singular():
    assert preview("x" * 500, budget=200).startswith("[1 line, 500 characters; this is a preview]")
    assert preview("x\n" * 250, budget=200).startswith("[250 lines, 500 characters; this is a preview]")

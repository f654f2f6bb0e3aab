import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.records import UNSET, ContentClass
from agenttool.results.preview import PreviewKind, ReadHint, kind_of, preview
from agenttool.testing.strategies import json_values

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
    assert lines[0] == f"[text, 1000 lines, {len(text)} characters; this is a preview]"
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


def test_a_log_points_at_its_errors():
    text = "\n".join("ERROR disk full" if number in (700, 800) else f"ok {number}" for number in range(1, 1001))
    shown = preview(text, budget=600, hint=HINT, kind=PreviewKind.LOG)
    assert shown.splitlines()[1] == "lines that speak of errors: 700, 800"


def test_json_shows_its_shape_its_first_items_and_its_last():
    value = [{"id": number, "name": f"n{number}", "tags": ["a"]} for number in range(5000)]
    text = json.dumps(value, separators=(",", ":"))
    shown = preview(text, budget=800, hint=HINT, value=value)
    lines = shown.splitlines()
    assert lines[0] == f"[JSON, 1 lines, {len(text)} characters; this is a preview]"
    assert lines[1] == ('shape: array of 5000, each {"id": integer, "name": string, "tags": array of 1, each string}')
    assert lines[2] == '/0: {"id":0,"name":"n0","tags":["a"]}'
    assert lines[-2] == '/4999: {"id":4999,"name":"n4999","tags":["a"]}'
    assert call_in(shown)[1] == {"payload_id": "payload:sha256:abc", "offset": 0, "limit": 4000}


def test_a_json_object_shows_each_member_whole_or_as_its_shape():
    value = {"title": "report", "rows": [{"n": number} for number in range(900)], "a/b": "y" * 9000}
    lines = preview(json.dumps(value), budget=1200, value=value).splitlines()
    assert '/title: "report"' in lines
    assert '/rows: array of 900, each {"n": integer}' in lines
    assert "/a~1b: string of 9000 characters" in lines


def test_a_table_names_its_columns_and_counts_its_rows():
    text = "id,name,city\n" + "".join(f"{number},n{number},Bonn\n" for number in range(1000))
    assert kind_of(text) is PreviewKind.TABLE
    shown = preview(text, budget=600, hint=HINT, kind=PreviewKind.TABLE)
    assert shown.splitlines()[1] == "1000 rows of 3 columns: id, name, city"
    assert shown.splitlines()[2].endswith("| id,name,city")


DIFF = """diff --git a/src/one.py b/src/one.py
--- a/src/one.py
+++ b/src/one.py
@@ -1,2 +1,3 @@
 same
-old
+new
+newer
@@ -9 +10 @@
--- a comment of SQL, removed
diff --git a/two.py b/two.py
--- a/two.py
+++ b/two.py
@@ -1 +1 @@
-x
+y
"""


def test_a_diff_lists_its_files_and_hunks():
    shown = preview(DIFF + " pad\n" * 500, budget=700, hint=HINT, kind=kind_of(DIFF))
    assert shown.splitlines()[1:3] == ["line 1: src/one.py (2 hunks, +2 -2)", "line 11: two.py (1 hunks, +1 -1)"]


def test_a_diff_without_git_is_a_diff():
    text = "--- a.txt\t2026\n+++ b.txt\t2026\n@@ -1 +1 @@\n-x\n+y\n--- c.txt\n+++ d.txt\n@@ -1 +1 @@\n-x\n"
    assert kind_of(text) is PreviewKind.DIFF
    lines = preview(text * 50, budget=2000, kind=PreviewKind.DIFF).splitlines()
    assert lines[1:3] == ["line 1: b.txt (1 hunks, +1 -1)", "line 6: d.txt (1 hunks, +0 -1)"]


@pytest.mark.parametrize(
    ("text", "content_class", "media_type", "kind"),
    [
        ("plain words", ContentClass.TEXT, "", PreviewKind.TEXT),
        ("plain words", ContentClass.LOG, "", PreviewKind.LOG),
        ("plain words", ContentClass.DIFF, "", PreviewKind.DIFF),
        ("a;b", ContentClass.TEXT, "text/csv", PreviewKind.TABLE),
        ("a\tb\tc\n" * 9, ContentClass.TEXT, "", PreviewKind.TABLE),
        ("one, two\n" * 9, ContentClass.TEXT, "", PreviewKind.TEXT),
    ],
)
def test_what_a_text_is_follows_from_its_class_its_type_or_its_first_lines(text, content_class, media_type, kind):
    assert kind_of(text, content_class=content_class, media_type=media_type) is kind


@given(
    st.text(max_size=400) | st.lists(st.text(max_size=30), max_size=60).map("\n".join),
    st.integers(0, 700),
    st.sampled_from([HINT, None]),
    st.sampled_from(PreviewKind),
)
def test_a_preview_never_exceeds_its_budget_and_can_be_written(text, budget, hint, kind):
    shown = preview(text, budget=budget, hint=hint, kind=kind)
    assert len(shown) <= budget
    shown.encode()
    assert shown == preview(text, budget=budget, hint=hint, kind=kind)


@given(json_values(max_leaves=40), st.integers(0, 700), st.sampled_from([HINT, None]))
def test_a_preview_of_json_never_exceeds_its_budget_either(value, budget, hint):
    shown = preview(json.dumps(value), budget=budget, hint=hint, value=value)
    assert len(shown) <= budget
    shown.encode()


@given(st.text(max_size=300).filter(lambda text: len(text) > 0))
def test_how_to_read_more_survives_any_budget_that_can_hold_it(text):
    shown = preview(text * 40, budget=400, hint=HINT)
    if len(text) * 40 > 400:
        tool, arguments = call_in(shown)
        assert (tool, arguments["payload_id"]) == ("read_result", "payload:sha256:abc")


def test_nothing_is_said_about_more_when_there_is_no_more():
    assert "To read more" not in preview("short\ntext", budget=500, hint=HINT)
    assert preview("", budget=500, hint=HINT, value=UNSET) == "[text, 0 lines, 0 characters; this is a preview]"

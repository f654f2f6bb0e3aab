import re
from pathlib import Path

from agenttool.conformance import validate
from agenttool.conformance.ledger import read_table
from agenttool.conformance.validate.finding import Finding, Origin, flaw, shown_id, shown_word


def test_an_id_is_shown_and_a_text_is_not():
    assert shown_id("inv_0190:a/b#1") == "inv_0190:a/b#1"
    for value in ("", "two words", "a\x1b[31m", "x" * 200, "pass'word", 7, None, ["inv_1"]):
        assert shown_id(value) is None


def test_a_word_is_shown_unless_it_could_be_more():
    assert shown_word("tool.invocation.done") == "tool.invocation.done"
    for value in ("", "hunter2", "two words", "x" * 50, "4711", None, 7):
        assert shown_word(value) is None


def test_a_finding_stands_where_its_document_does_or_below():
    flaw = Finding(message="m", expected="e", advice="a", line=2)
    assert Origin("f", 3).finding(flaw).line == 5


def test_a_document_cannot_fill_the_report_with_the_name_of_a_member():
    flaw = Finding(message="m", expected="e" * 10_000, advice="a", pointer="/" + "x" * 1_000_000)
    finding = Origin("f", 1).finding(flaw)
    assert len(finding.pointer) < 1000
    assert len(finding.expected) < 1000


def test_every_flaw_of_the_table_is_reported_by_a_check_and_every_reported_one_is_in_the_table():
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(validate.__path__[0]).glob("*.py"))
    named = {row["name"] for row in read_table("validate/flaws.tsv")}
    assert {name for name in named if not re.search(f"[\"']{name}[\"']", sources)} == set()
    assert set(re.findall(r'\bflaw\(\s*"(\w+)"', sources)) <= named


def test_the_values_of_a_flaw_stand_in_its_texts():
    assert flaw("event_without_call", "/tool_id", member="tool_id") == Finding(
        message="an event about a call does not say which",
        expected="a member 'tool_id'",
        advice="add 'tool_id'",
        pointer="/tool_id",
        requirement="AT-EVT-02",
        severity="warning",
        layer="sense",
    )

"""Findings as people see them."""

from agenttool.cli.findings import finding_block, printable
from agenttool.conformance.validate.finding import Flaw, Origin


def block(width, **members):
    flaw = Flaw(message="what is wrong", expected="something", advice="do this", pointer="/a/b", requirement="AT-X-01")
    return finding_block(Origin("f.jsonl", 3, **members).finding(flaw), width).plain.splitlines()


def test_a_block_is_three_lines_where_there_is_room():
    assert block(None, record_type="tool_event", record_id="evt_1") == [
        "f.jsonl:3  tool_event  evt_1  /a/b",
        "  error [AT-X-01]: what is wrong",
        "  expected something; do this",
    ]


def test_what_is_not_known_is_left_out():
    assert block(None)[0] == "f.jsonl:3  /a/b"


def test_a_narrow_terminal_folds_lines_and_indents_the_rest():
    assert block(20)[:4] == ["f.jsonl:3  /a/b", "  error [AT-X-01]:", "    what is wrong", "  expected"]
    assert all(len(line) <= 20 for line in block(20))


def test_what_could_act_on_a_terminal_is_spelled_out():
    assert printable("a\x1b[2J\u202eb\n") == "a\\x1b[2J\\u202eb\\n"
    assert printable("grün …") == "grün …"

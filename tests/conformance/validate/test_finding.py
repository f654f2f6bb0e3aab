from agenttool.conformance.validate.finding import Origin, RecordFlaw, shown_id, shown_word


def test_an_id_is_shown_and_a_text_is_not():
    assert shown_id("inv_0190:a/b#1") == "inv_0190:a/b#1"
    for value in ("", "two words", "a\x1b[31m", "x" * 200, "pass'word", 7, None, ["inv_1"]):
        assert shown_id(value) is None


def test_a_word_is_shown_unless_it_could_be_more():
    assert shown_word("tool.invocation.done") == "tool.invocation.done"
    for value in ("", "hunter2", "two words", "x" * 50, "4711", None, 7):
        assert shown_word(value) is None


def test_a_finding_stands_where_its_document_does_or_below():
    flaw = RecordFlaw(message="m", expected="e", advice="a", lines_down=2)
    assert Origin("f", 3).finding(flaw).line == 5


def test_a_document_cannot_fill_the_report_with_the_name_of_a_member():
    flaw = RecordFlaw(message="m", expected="e" * 10_000, advice="a", pointer="/" + "x" * 1_000_000)
    finding = Origin("f", 1).finding(flaw)
    assert len(finding.pointer) < 1000
    assert len(finding.expected) < 1000

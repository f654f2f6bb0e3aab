def test_the_same_record_twice_is_no_harm_however_it_is_spelled(validated, record):
    result = record("tool_result")
    call = record("tool_invocation", status="succeeded")
    assert validated([call, result, dict(reversed(result.items())), call]) == []


def test_two_records_of_one_kind_do_not_share_an_id(validated, record):
    first, second = record("tool_event"), record("tool_event", source="another")
    (finding,) = validated([first], [first, second])
    assert (finding.file, finding.line, finding.pointer, finding.severity) == ("b", 2, "/event_id", "error")
    assert "a:1" in finding.expected


def test_two_kinds_may_share_an_id(check, record):
    assert (
        check(record("tool_permission_decision", decision_id="d"), record("tool_result_persistence", decision_id="d"))
        == []
    )


def test_what_describes_the_catalog_may_have_changed(check, record):
    changed = record("tool_declaration", description="Another one.")
    assert check(record("tool_declaration"), changed) == [("warning", "/tool_id", "AT-VER-03")]


def test_one_tool_may_be_deferred_in_many_ways(check, record):
    assert check(record("deferred_tool_ref"), record("deferred_tool_ref", loading_state="loaded")) == []

def updates(record, *sequences, call="inv_1"):
    return [
        record("tool_progress", progress_id=f"prg_{call}_{place}", invocation_id=call, sequence=sequence)
        for place, sequence in enumerate(sequences)
    ]


def test_progress_counts_without_gaps_in_whichever_order_it_is_written(check, record):
    assert check(*updates(record, 1, 2, 3)) == []
    assert check(*updates(record, 3, 1, 2)) == []


def test_a_gap_is_told_where_it_ends(validated, record):
    first, second = validated(updates(record, 2, 3, 5))
    assert [(each.line, each.pointer, each.requirement) for each in (first, second)] == [
        (1, "/sequence", "AT-PROG-04"),
        (3, "/sequence", "AT-PROG-04"),
    ]
    assert first.expected == "the number 1"
    assert second.expected == "the number after that of a:2"


def test_a_number_is_used_once(check, record):
    assert check(*updates(record, 1, 2, 2)) == [("error", "/sequence", "AT-PROG-04")]
    one = updates(record, 1)
    assert check(*one, *one) == []


def test_each_call_counts_for_itself(check, record):
    assert check(*updates(record, 1, 2), *updates(record, 1, 2, call="inv_2")) == []


def test_a_number_is_the_same_however_it_is_spelled(check, record):
    assert check(*updates(record, 1, 2.0, 3)) == []
    assert check(*updates(record, 1, 1.0)) == [("error", "/sequence", "AT-PROG-04")]


def test_a_number_of_any_size_is_one(check, record):
    assert check(*updates(record, 1, (1 << 64) - 1)) == [("error", "/sequence", "AT-PROG-04")]

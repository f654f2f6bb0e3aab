import pytest


@pytest.mark.parametrize("sequence", [0, -1, -(1 << 63)])
def test_progress_counts_from_one(check, record, sequence):
    assert check(record("tool_progress", sequence=sequence)) == [("error", "/sequence", "AT-PROG-04")]


@pytest.mark.parametrize("percent", [-1, 100.5])
def test_a_percentage_is_one(check, record, percent):
    assert check(record("tool_progress", percent=percent)) == [("error", "/percent", "AT-PROG-01")]

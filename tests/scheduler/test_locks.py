import pytest

from agenttool.records import ResourceLock
from agenttool.scheduler.locks import claims, locks_of


def lock(resource, mode=None):
    return ResourceLock(resource=resource, mode=mode)


@pytest.mark.parametrize(
    ("mode", "exclusive"),
    [("read", False), ("shared", False), ("write", True), ("exclusive", True), (None, True), ("READ", True)],
)
def test_only_a_known_word_shares_a_resource(mode, exclusive):
    assert claims([lock("a", mode)]) == (("a", exclusive),)


def test_a_resource_named_twice_is_claimed_once_and_strictly():
    assert claims([lock("a", "read"), lock("b", "read"), lock("a", "write"), lock("a", "read")]) == (
        ("a", True),
        ("b", False),
    )


def test_a_bare_name_is_an_exclusive_lock():
    assert locks_of(lambda its: (its["path"],), {"path": "a"}) == (lock("a", "exclusive"),)


@pytest.mark.parametrize("answer", [None, 3, [None], [3], [lock(None)], [lock(3)]])
def test_an_answer_that_cannot_be_read_is_no_answer(answer):
    assert locks_of(lambda _: answer, {}) is None


def test_a_rule_that_fails_half_way_is_no_answer():
    def rule(_):
        yield "a"
        raise LookupError

    assert locks_of(rule, {}) is None


def test_to_lock_nothing_is_an_answer():
    assert locks_of(lambda _: [], {}) == ()

from agenttool.conformance.validate.trail import walk


def test_every_value_is_visited_once_in_the_order_of_the_document():
    value = {"a": [1, {"b/c": 2}], "d": {}}
    assert [(visit.trail.pointer, visit.value) for visit in walk(value)] == [
        ("/a", [1, {"b/c": 2}]),
        ("/a/0", 1),
        ("/a/1", {"b/c": 2}),
        ("/a/1/b~1c", 2),
        ("/d", {}),
    ]


def test_a_single_value_has_nothing_below_it():
    assert list(walk(7)) == []


def test_depth_costs_no_recursion():
    value = []
    for _ in range(100_000):
        value = [value]
    assert sum(1 for _ in walk(value)) == 100_000

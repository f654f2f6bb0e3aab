def test_tool_refs_has_every_tool_that_is_loaded_or_deferred_and_none_that_is_not(check, record):
    surface = record(
        "tool_surface",
        tool_refs=["a", "b", "c", "d"],
        loaded_tools=["a", {"tool_id": "b"}, "x"],
        deferred_tools=[record("deferred_tool_ref", tool_id="c"), record("deferred_tool_ref", tool_id="y")],
        blocked_tools=[{"tool_id": "d"}, {"tool_id": "z"}],
        excluded_tools=[{"tool_id": "a"}],
    )
    assert check(surface) == [
        ("error", "/loaded_tools/2", "AT-SURF-06"),
        ("error", "/deferred_tools/1", "AT-SURF-06"),
        ("error", "/blocked_tools/0", "AT-SURF-06"),
        ("error", "/excluded_tools/0", "AT-SURF-06"),
    ]


def test_a_surface_without_tool_refs_is_not_compared(check, record):
    assert check(record("tool_surface", loaded_tools=["a"], blocked_tools=[{"tool_id": "b"}])) == []

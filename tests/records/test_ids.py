from agenttool.records import DECISION, ID_KINDS, INVOCATION, PERSISTENCE, is_unresolved, unresolved_tool


def test_two_kinds_of_ids_never_share_a_prefix():
    prefixes = [kind.prefix for kind in ID_KINDS]
    assert len(set(prefixes)) == len(prefixes)
    assert not any(a != b and a.startswith(b + "_") for a in prefixes for b in prefixes)


def test_an_id_says_what_it_is_of():
    made = INVOCATION.compose("0190f3c27d2b7000a1b2c3d4e5f60718")
    assert made == "inv_0190f3c27d2b7000a1b2c3d4e5f60718"
    assert INVOCATION.owns(made)
    assert not DECISION.owns(made)


def test_permission_and_persistence_decisions_live_in_different_spaces():
    assert DECISION.compose("1") != PERSISTENCE.compose("1")


def test_a_tool_that_was_never_found_still_has_a_name():
    missing = unresolved_tool("make_coffee")
    assert missing == "unresolved:make_coffee"
    assert is_unresolved(missing)
    assert not is_unresolved("tool_files.read_file")

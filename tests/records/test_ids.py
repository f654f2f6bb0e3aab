from agenttool.records import ID_PREFIXES, INVOCATION, PERSISTENCE, SURFACE, is_unresolved, unresolved_tool


def test_two_kinds_of_ids_never_share_a_prefix():
    assert len(set(ID_PREFIXES)) == len(ID_PREFIXES)
    assert not any(a != b and a.startswith(b + "_") for a in ID_PREFIXES for b in ID_PREFIXES)
    assert {each.prefix for each in (SURFACE, INVOCATION, PERSISTENCE)} < set(ID_PREFIXES)


def test_an_id_says_what_it_is_of():
    made = INVOCATION.compose("0190f3c27d2b7000a1b2c3d4e5f60718")
    assert made == "inv_0190f3c27d2b7000a1b2c3d4e5f60718"
    assert INVOCATION.owns(made)
    assert not SURFACE.owns(made)


def test_a_tool_that_was_never_found_still_has_a_name():
    missing = unresolved_tool("make_coffee")
    assert missing == "unresolved:make_coffee"
    assert is_unresolved(missing)
    assert not is_unresolved("tool_files.read_file")

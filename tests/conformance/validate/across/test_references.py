def test_a_reference_that_leads_nowhere_is_an_error(check, record):
    other = record("tool_invocation", invocation_id="inv_other", tool_id="tool_read")
    assert check(other, record("tool_result", invocation_id="inv_gone")) == [("error", "/invocation_id", "AT-MODEL-01")]


def test_a_reference_may_lead_forwards_or_backwards_or_into_another_file(validated, record):
    call = record("tool_invocation")
    result = record("tool_result")
    running = {"status": "succeeded"}
    assert validated([call | running, result]) == []
    assert validated([result, call | running]) == []
    assert validated([result], [call | running]) == []
    assert validated([call | running], [result]) == []


def test_a_kind_of_reference_is_not_checked_if_the_set_holds_no_record_of_that_kind(check, record):
    assert check(record("tool_result", persistence_refs=["prs_gone"]), record("tool_progress")) == []


def test_each_reference_is_told_by_its_place_and_its_row(check, record):
    call = record(
        "tool_invocation",
        surface_id="gone",
        hook_refs=["hook_1", "gone"],
        permission_decision_refs=["gone"],
        scheduler_policy_ref="gone",
        retry_of="gone",
        input_mutation_refs=["gone"],
    )
    declaration = record("tool_declaration", interface_ref="gone", permission_profile_ref="perm_read")
    kinds = (
        "tool_surface",
        "tool_hook",
        "tool_permission_decision",
        "tool_scheduler_policy",
        "tool_input_mutation",
        "tool_interface",
        "tool_permission_profile",
    )
    assert sorted(check(call, declaration, *map(record, kinds))) == [
        ("error", "/hook_refs/1", "AT-HOOK-16"),
        ("error", "/input_mutation_refs/0", "AT-MODEL-01"),
        ("error", "/interface_ref", "AT-DECL-23"),
        ("error", "/permission_decision_refs/0", "AT-PERM-27"),
        ("error", "/retry_of", "AT-MODEL-01"),
        ("error", "/scheduler_policy_ref", "AT-INV-06"),
        ("error", "/surface_id", "AT-INV-02"),
    ]


def test_a_tool_that_was_never_found_need_not_be_declared(check, record):
    assert check(record("tool_declaration"), record("tool_invocation", tool_id="unresolved:frobnicate")) == []


def test_a_tool_that_is_only_deferred_blocked_excluded_or_found_need_not_be_declared(check, record):
    surface = record(
        "tool_surface",
        tool_refs=["tool_read"],
        loaded_tools=["tool_read"],
        blocked_tools=[{"tool_id": "gone"}],
        excluded_tools=[{"tool_id": "gone"}],
    )
    deferred = record("tool_surface", surface_id="srf_2", deferred_tools=[record("deferred_tool_ref")])
    found = record("tool_search_result", matches=["gone", {"tool_id": "gone"}])
    assert check(record("tool_declaration"), surface, deferred, found) == []


def test_the_loaded_tools_of_a_surface_are_declared(check, record):
    surface = record("tool_surface", tool_refs=["a", "b"], loaded_tools=["a", {"tool_id": "b"}])
    assert [pointer for _, pointer, _ in check(record("tool_declaration", tool_id="a"), surface)] == [
        "/tool_refs/1",
        "/loaded_tools/1",
    ]


def test_where_documents_could_not_be_read_a_missing_record_is_a_warning(validated, record, lines):
    calls = lines([record("tool_invocation", invocation_id="inv_2"), record("tool_result")])
    *_, finding = validated(calls + b'{"cut off')
    assert (finding.severity, finding.pointer) == ("warning", "/invocation_id")
    assert "could not be read (1)" in finding.advice


def test_a_missing_record_is_named_only_if_its_name_is_a_name(validated, record):
    call = record("tool_invocation", invocation_id="inv_2")
    named, secret = validated(
        [call, record("tool_result"), record("tool_result", result_id="r", invocation_id="my pass")]
    )
    assert "'inv_1'" in named.expected
    assert "my pass" not in repr(secret)


def test_ids_as_long_as_a_record_are_ids(check, record):
    long = "x" * 100_000
    call, result = record("tool_invocation", invocation_id=long), record("tool_result", invocation_id=long)
    assert check(call | {"status": "succeeded"}, result) == []
    assert check(call | {"status": "succeeded"}, result | {"invocation_id": long + "y"}) != []

"""Every ask, and the test that answers it; or what has to be there first."""

import ast
from pathlib import Path

import pytest

NOT_YET = "not yet: needs "

ANSWERS = {
    1: "test_ask_01_two_servers_may_offer_one_name_and_neither_wins_in_silence",
    2: "test_ask_02_a_name_that_no_provider_takes_costs_neither_its_tool_nor_any_other",
    3: "test_ask_03_hundreds_of_tools_cost_a_model_one_search_and_what_it_finds",
    4: "test_ask_04_a_result_of_megabytes_is_a_success_with_a_preview_and_stored_whole",
    5: "test_ask_05_an_image_is_an_image_and_its_base64_is_in_no_text",
    6: "test_ask_06_a_question_is_still_open_after_a_restart_and_its_answer_counts",
    7: "test_ask_07_what_runs_is_what_was_shown_whatever_happens_to_it_meanwhile",
    8: "test_ask_08_an_approval_is_good_for_one_call_and_a_late_one_for_none",
    9: "test_ask_09_proposed_decided_and_executed_stay_apart_after_an_edit",
    10: "test_ask_10_a_person_outside_the_agents_loop_answers_and_the_agent_only_waits",
    11: "test_ask_11_a_call_that_hangs_ends_in_its_time_and_the_next_one_runs",
    12: "test_ask_12_signs_of_life_keep_a_call_alive_and_silence_ends_it",
    13: "test_ask_13_a_call_that_was_stopped_writes_nothing_afterwards",
    14: "test_ask_14_every_call_of_a_turn_has_a_result_however_it_ended",
    15: "test_ask_15_what_may_have_run_is_not_run_again_after_a_crash",
    16: "test_ask_16_parallel_edits_of_one_file_lose_nothing",
    17: "test_ask_17_one_dead_backend_fails_its_own_calls_and_no_others",
    18: "test_ask_18_every_tool_that_is_not_there_says_why_and_so_does_calling_it",
    19: "test_ask_19_a_secret_argument_reaches_no_record_event_log_or_message",
    20: "test_ask_20_each_call_runs_with_the_credential_of_its_own_user",
    21: "test_ask_21_a_tool_left_out_of_an_agents_surface_cannot_be_called_by_any_of_its_names",
    22: "test_ask_22_a_parameter_that_is_not_the_models_is_neither_shown_to_it_nor_taken_from_it",
    23: "test_ask_23_a_denied_command_is_found_wherever_it_stands_in_a_line",
    24: "test_ask_24_a_sub_agent_gets_around_no_denial_of_its_parent",
    25: "test_ask_25_a_tool_whose_text_changed_after_it_was_allowed_is_asked_about_again",
    26: "test_ask_26_who_allowed_what_and_by_which_rule_can_be_checked_by_a_third_party",
    27: "test_ask_27_a_denied_call_is_on_the_record_like_any_other",
    28: "test_ask_28_every_failure_has_a_class_a_code_and_a_word_about_trying_again",
    29: "not yet: needs a shell and its sandbox",
    30: "test_ask_30_a_job_of_hours_is_submitted_left_alone_and_called_back",
    31: "not yet: needs MCP servers of our own making",
}


def written():
    """Collect the names of all tests beside this one."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name


def test_every_ask_is_listed():
    assert list(ANSWERS) == list(range(1, 32))


@pytest.mark.parametrize("ask", ANSWERS)
def test_the_answer_to_an_ask_exists_and_is_named_after_it(ask):
    answer = ANSWERS[ask]
    named = {name for name in written() if name.startswith(f"test_ask_{ask:02}_")}
    if answer.startswith(NOT_YET):
        assert named == set(), "it is answered by now: list the test"
    else:
        assert answer in named

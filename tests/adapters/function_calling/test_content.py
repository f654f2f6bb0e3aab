"""Results as models read them, and conversations in which no call is left without one."""

import copy

import pytest

from agenttool.adapters.function_calling.content import INTERRUPTED, NOTHING, answers_of, refs_in
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.adapters.function_calling.menu import Limits, Wishes, make_menu
from agenttool.records import ContentClass, ContentItem, Ref, ResultStatus, ToolResult, replace, text_item
from agenttool.testing.replies import Asked, reply

EMPTY = make_menu((), Limits(), Wishes())
PICTURE = Ref(id="payload:1", digest="sha256:" + "0" * 64, media_type="image/png", title="a.png")
PROVIDERS = list(FORMATS)


def result(*content, **fields):
    ids = {"result_id": "res_1", "invocation_id": "inv_1", "created_at": "2026-05-08T00:00:00Z"}
    return ToolResult(status=ResultStatus.SUCCEEDED, is_error=False, model_facing_content=content, **ids, **fields)


def said(provider, count=2, **fields):
    calls = [Asked(name=f"t{number}", arguments={}, call_id=f"call_{number}") for number in range(count)]
    return FORMATS[provider].read(reply(provider, *calls, **fields), EMPTY)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_without_a_result_cannot_be_written(provider):
    read = said(provider, 3)
    answers = answers_of(read.calls, [result(text_item("first"))], {})
    assert [each.text for each in answers] == ["first", INTERRUPTED, INTERRUPTED]
    written = str(FORMATS[provider].write(answers))
    assert all(f"call_{number}" in written for number in range(3))
    assert str(written).count("the turn was interrupted") == 2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_settling_answers_what_was_left_open_and_changes_nothing_else(provider):
    settle, write = FORMATS[provider].settle, FORMATS[provider].write
    read = said(provider)
    answers = answers_of(read.calls, [result(text_item("one")), result(text_item("two"))], {})
    whole = [*read.echo, *write(answers), *said(provider, 0, text="Done.").echo]
    assert settle(whole) == whole
    interrupted = [*read.echo, *said(provider, 0, text="Where were we?").echo]
    before = copy.deepcopy(interrupted)
    settled = settle(interrupted)
    assert interrupted == before
    assert str(settled).count("the turn was interrupted") == 2
    assert settle(settled) == settled
    assert (settled[: len(read.echo)], settled[-1]) == (list(read.echo), interrupted[-1])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_settling_a_turn_that_was_answered_in_part_adds_what_is_missing_behind_it(provider):
    settle, write = FORMATS[provider].settle, FORMATS[provider].write
    read = said(provider)
    first = answers_of(read.calls, [result(text_item("one"))], {})[:1]
    settled = str(settle([*read.echo, *write(first)]))
    assert settled.count("the turn was interrupted") == 1
    assert settled.index("'one'") < settled.index("the turn was interrupted")


def test_what_a_person_says_after_an_interruption_stays_in_one_message_with_the_results():
    read = said("anthropic")
    (_, message) = FORMATS["anthropic"].settle([*read.echo, {"role": "user", "content": "Stop that."}])
    assert [each["type"] for each in message["content"]] == ["tool_result", "tool_result", "text"]
    assert message["content"][-1] == {"type": "text", "text": "Stop that."}


def test_media_whose_bytes_are_not_there_are_told_by_their_caption():
    picture = ContentItem(type=ContentClass.IMAGE, text="image a.png", ref=PICTURE)
    pictured = result(picture)
    assert list(refs_in([pictured])) == [PICTURE]
    read = said("anthropic", 1)
    (alone,) = answers_of(read.calls, [pictured], {})
    (empty,) = answers_of(read.calls, [pictured], {PICTURE.digest: b""})
    (shown,) = answers_of(read.calls, [pictured], {PICTURE.digest: b"\x89PNG\r\n\x1a\n"})
    assert (alone.pieces, alone.media) == (empty.pieces, empty.media) == (("image a.png",), ())
    assert [each.data for each in shown.media] == [b"\x89PNG\r\n\x1a\n"]


def test_an_image_of_a_failure_stands_beside_the_results_where_failures_are_told_in_words_only():
    whole = result(ContentItem(type=ContentClass.IMAGE, text="image a.png", ref=PICTURE))
    failed = replace(whole, status=ResultStatus.FAILED, is_error=True)
    answers = answers_of(said("anthropic").calls, [failed, whole], {PICTURE.digest: b"\x89PNG\r\n\x1a\n"})
    (message,) = FORMATS["anthropic"].write(answers)
    first, second, *beside = message["content"]
    assert (first["is_error"], [each["type"] for each in first["content"]]) == (True, ["text"])
    assert [each["type"] for each in second["content"]] == ["text", "image"]
    assert beside == [{"type": "text", "text": "Output of call call_0:"}, second["content"][1]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_media_that_a_provider_does_not_take_leave_their_caption(provider):
    film = ContentItem(type=ContentClass.FILE, text="file a.zip", ref=PICTURE, media_type="application/zip")
    answers = answers_of(said(provider, 1).calls, [result(film)], {PICTURE.digest: b"PK"})
    written = str(FORMATS[provider].write(answers))
    assert "file a.zip" in written
    assert "PK" not in written
    assert "UEs" not in written


@pytest.mark.parametrize("content", [(), (text_item(""),)])
def test_an_empty_result_says_that_it_is_empty(content):
    (answer,) = answers_of(said("openai", 1).calls, [result(*content)], {})
    assert answer.pieces == (NOTHING,)


def test_a_link_without_words_is_told_by_its_address():
    link = ContentItem(type=ContentClass.RESOURCE_LINK, name="notes", uri="https://example.org/notes")
    (answer,) = answers_of(said("openai", 1).calls, [result(link)], {})
    assert answer.text == "resource_link notes https://example.org/notes"

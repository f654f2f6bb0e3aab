"""The index follows the catalog, finds in large ones what it finds in small ones, and knows its bounds."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search import shelf
from agenttool.catalog.search.candidates import FRESH, Candidates
from agenttool.catalog.search.document import columns_of
from agenttool.catalog.search.index import Index
from agenttool.catalog.search.names import Names
from agenttool.catalog.search.score import Scorer
from agenttool.catalog.search.shelf import FEW
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool

WORDS = ("create", "issue", "invoice", "send", "mail", "branch")


def entry(name, description="", namespace="test", aliases=()):
    tool = scripted_tool(name, namespace=namespace)
    declaration = replace(tool.declaration, description=description, aliases=aliases)
    return Entry(tool=dataclasses.replace(tool, declaration=declaration))


def filled(entries):
    index = Index()
    for each in entries:
        index.put(each)
    while index.catch_up(100):
        pass
    return index, {each.tool_id: each for each in entries}


def ids(found):
    return [each.tool_id for each in found]


CROWD = [entry(f"chore_{n}", "Do what has to be done on a day.", namespace="office") for n in range(FEW + 200)]


@pytest.mark.parametrize("said", [{"aliases": ["search", "web.search"]}, {"tool_id": "web.search"}])
def test_a_tool_is_selected_by_its_name_whatever_others_call_themselves(said):
    rogue = entry("rogue")
    rogue = Entry(tool=dataclasses.replace(rogue.tool, declaration=replace(rogue.tool.declaration, **said)))
    index, known = filled([entry("search", namespace="web"), rogue])
    assert index.named("web.search", known) == index.named("search", known) == ("tool_web.search",)
    assert index.named("rogue", known) == (rogue.tool_id,)
    assert ids(index.find("web.search", known, 1)) == ["tool_web.search"]


@pytest.mark.parametrize("crowd", [CROWD[:20], CROWD])
def test_who_asks_for_more_tools_than_there_are_gets_all_that_fit(crowd):
    index, known = filled(crowd)
    assert len(index.find("a day", known, 2**70)) == len(crowd)
    assert index.find("a day", {}, 2**70) == []


@pytest.mark.parametrize("crowd", [CROWD[:20], CROWD])
@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("read_mail", "read_mail"),
        ("READ_MAIL", "read_mail"),
        ("please read my mails", "read_mail"),
        ("make an invioce", "create_invoice"),
        ("发票", "chinese"),
        ("help me", "helper"),
    ],
)
def test_a_tool_is_found_in_a_crowd_of_any_size(query, name, crowd):
    wanted = [
        entry("read_mail", "Show a message. Not for sending mail, mail, mail."),
        entry("mail_mail", "Read read mail mail, read mail."),
        entry("create_invoice", "Bill a customer."),
        entry("chinese", "打印发票并发送给客户"),
        entry("helper", "Help."),
    ]
    index, known = filled([*crowd, *wanted])
    assert ids(index.find(query, known, 3))[0] == f"tool_test.{name}"


def test_what_is_not_known_is_not_found_however_well_it_fits():
    hidden = [entry(f"invoice_{n}", "invoice invoice", namespace="hidden") for n in range(1000)]
    index, known = filled([*hidden, *CROWD, entry("office_paper", "Print an invoice.")])
    for each in hidden:
        del known[each.tool_id]
    assert len(known) > FEW
    assert ids(index.find("invoice", known, 10)) == ["tool_test.office_paper"]


def test_a_tool_that_is_added_replaced_or_removed_is_so_for_the_next_search():
    index, known = filled(CROWD)
    for description, query, found in (
        ("Paint a zebra.", "zebra", 1),
        ("Paint a gnu.", "zebra", 0),
        ("Paint a gnu.", "gnu", 1),
        (None, "gnu", 0),
    ):
        painter = entry("painter", description or "")
        known[painter.tool_id] = painter
        index.put(painter)
        if description is None:
            index.remove(painter.tool_id)
        index.catch_up(10)
        assert len(index.find(query, known, 5)) == found


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from(WORDS), max_size=5), st.booleans()), max_size=25
    )
)
def test_an_index_that_followed_many_changes_answers_like_one_made_anew(changes):
    assert_like_one_made_anew(changes)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from(WORDS), max_size=5), st.booleans()), max_size=25
    )
)
def test_so_does_one_that_forgets_words_all_the_time(changes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelf, "GONE", 0)
        assert_like_one_made_anew(changes)


def assert_like_one_made_anew(changes):
    index, present = Index(), {}
    for name, words, goes in changes:
        each = entry(name, " ".join(words))
        if goes:
            index.remove(each.tool_id)
            present.pop(each.tool_id, None)
        else:
            index.put(each)
            present[each.tool_id] = each
        if len(words) % 2:
            index.catch_up(2)
    while index.catch_up(100):
        pass
    anew, known = filled(list(present.values()))
    for query in (*WORDS, "create invoic", "a", "select"):
        assert index.find(query, known, 10) == anew.find(query, known, 10)


@pytest.mark.parametrize("crowd", [[], CROWD])
def test_the_words_of_tools_that_come_and_go_for_months_are_forgotten(crowd):
    index, known = filled(crowd)
    for month in range(40):
        word = "".join("abcdefghij"[int(digit)] for digit in f"{month:04}")
        for number in range(200):
            tool = entry(f"tool_{number}", f"Paint zebra{word} and {word}{chr(97 + number % 26)}gnu.")
            known[tool.tool_id] = tool
            index.put(tool)
        while index.catch_up(100):
            pass
    anew, _ = filled([*known.values()])
    words = index._shelf.alphabet.words
    assert len(words) - len(anew._shelf.alphabet.words) < 10 * 27  # of 40 times as many
    assert len(index.find(f"zebra{word}", known, 5)) == 5
    assert "zebraaaaa" not in words
    assert all(each in words for each, _ in index._shelf.spellings.meant_by("zebraaaaa"))


def test_a_tool_that_changes_before_anybody_searches_waits_once():
    index = Index()
    for number in range(1000):
        index.put(entry("painter", f"Paint {number}."))
    assert len(index._waiting) == 1
    index.catch_up(10)
    painter = entry("painter")
    assert ids(index.find("paint 999", {painter.tool_id: painter}, 1)) == [painter.tool_id]


@pytest.mark.parametrize("query", ["a." * 100_000, "do it. " * 50_000, "." * 200_000])
def test_a_query_as_long_as_a_book_is_not_taken_for_a_name_at_every_dot(query, monkeypatch):
    index, known = filled([*CROWD[:3], entry("alias", aliases=["a.b." * 20])])
    asked = []
    bare = Names._bare
    monkeypatch.setattr(Names, "_bare", lambda names, folded: asked.append(len(folded)) or bare(names, folded))
    index.find(query, known, 10)
    assert sum(asked) < 10 * len(query)
    assert ids(index.find("A.B." * 20, known, 1)) == ["tool_test.alias"]


def test_of_a_query_as_long_as_a_book_the_first_pages_are_read():
    index, known = filled([*CROWD[:3], entry("paint_zebra", "Paint a zebra."), entry("wash_gnu", "Wash a gnu.")])
    found = index.find("paint a zebra. " + "and so on, " * 10_000 + "wash the gnu", known, 10)
    assert ids(found)[0] == "tool_test.paint_zebra"
    assert "tool_test.wash_gnu" not in ids(found)


def test_names_and_namespaces_may_have_dots_and_other_capitals():
    index, known = filled([entry("d.e", namespace="a.b.c"), entry("straße", namespace="ß")])
    assert ids(index.find("A.B.C.D.E", known, 1)) == ["tool_a.b.c.d.e"]
    assert ids(index.find("SS.STRASSE", known, 1)) == ["tool_ß.straße"]


@given(st.text(max_size=200))
def test_no_query_is_too_odd(query):
    index, known = filled(CROWD[:3])
    assert all(0 < each.score <= 1 for each in index.find(query, known, 10))


def test_one_tool_more_or_less_leaves_what_was_read_alone(monkeypatch):
    index, known = filled(CROWD)
    read = []
    monkeypatch.setattr(shelf, "columns_of", lambda some, alphabet: read.extend(some) or columns_of(some, alphabet))
    more = [entry("paint_zebra", "Paint a zebra."), entry("paint_gnu", "Paint a gnu.")]
    for each in more:
        known[each.tool_id] = each
        index.put(each)
    index.remove(CROWD[0].tool_id)
    assert not index.catch_up(10)
    assert read == more
    assert ids(index.find("paint a zebra", known, 1)) == ["tool_test.paint_zebra"]
    assert CROWD[0].tool_id not in ids(index.find("chore", known, len(known)))


def test_the_full_text_index_takes_new_tools_by_the_dozen_and_each_is_found_at_once(monkeypatch):
    index, known = filled(CROWD)
    index.find("zebra", known, 1)
    taken = []
    write = Candidates._write
    monkeypatch.setattr(Candidates, "_write", lambda *told: taken.append(len(known)) or write(*told))
    for number in range(2 * FRESH):
        zebra = entry(f"paint_{number}", f"Paint a zebra number{number}.")
        known[zebra.tool_id] = zebra
        index.put(zebra)
        index.catch_up(1)
        assert ids(index.find(f"number{number} zebra", known, 1)) == [zebra.tool_id]
    assert len(set(taken)) <= 2
    for number in range(2 * FRESH):
        index.remove(f"tool_test.paint_{number}")
    assert index.find("zebra", known, 3) == []


@pytest.mark.parametrize("crowd", [CROWD[:20], CROWD])
def test_an_identifier_amid_a_sentence_leads_to_its_tool(crowd):
    index, known = filled(
        [*crowd, entry("send_mail", "Send mail."), entry("mail", "Send mail, mail.", aliases=["postIt"])]
    )
    assert ids(index.find("run test.send_mail, then the mail mail", known, 3))[0] == "tool_test.send_mail"
    assert ids(index.find("could you postIt for me", known, 3))[0] == "tool_test.mail"
    assert index.find("send some mail", known, 3)[0].score < 1


def test_small_talk_does_not_drown_what_is_asked():
    letter = """Hello, my name is Ada and I live in Denver with my family. Yesterday my boss told me about this, and we are
    busy this week. Could you please {}? It would be great to have it before Friday evening. Thanks for your help!"""
    index, known = filled(
        [
            *CROWD,
            entry("plan_week", "Plan the evening, the week and the year of a busy family."),
            entry("find_driver", "Find a driver."),
            entry("resize_image", "Make a picture smaller."),
        ]
    )
    assert ids(index.find(letter.format("make the picture smaller"), known, 3))[0] == "tool_test.resize_image"
    assert "tool_test.find_driver" not in ids(index.find("a trip to denver", known, 3))


def test_a_tool_that_answers_one_sentence_beats_one_that_shares_a_word_with_each():
    index, known = filled(
        [
            *CROWD,
            entry("mixed", "Paint, parcel, violin, kitchen."),
            entry("paint_wall", "Use colour."),
            entry("track_parcel", "Find a delivery."),
        ]
    )
    letter = "Our kitchen is new. She plays the violin. I want to paint the wall. Also, please track a parcel for me."
    assert set(ids(index.find(letter, known, 2))) == {"tool_test.paint_wall", "tool_test.track_parcel"}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("list all detection jobs", "list_detection_jobs"),
        ("what detection jobs are there", "list_detection_jobs"),
        ("kick off: launch the detection jobs", "start_detection_job"),
        ("erase a detection job", "detection_job_delete"),
    ],
)
def test_a_tool_that_does_what_is_wanted_beats_one_that_does_something_else_to_it(query, name):
    index, known = filled(
        [
            *CROWD,
            entry("start_detection_job", "Begins a detection job of all detection jobs."),
            entry("list_detection_jobs", "Jobs for detection."),
            entry("detection_job_delete", "A detection job goes."),
        ]
    )
    assert ids(index.find(query, known, 1)) == [f"tool_test.{name}"]


def test_relatives_of_a_word_count_less_than_the_word():
    index, known = filled([*CROWD, entry("send_email", "Send it."), entry("read_mail", "Read it.")])
    found = index.find("mail", known, 3)
    assert ids(found) == ["tool_test.read_mail", "tool_test.send_email"]
    assert found[1].reason == "its name says email (for mail)"
    assert found[0].score > 2 * found[1].score


def test_a_few_tools_that_may_not_be_known_do_not_make_a_search_score_many_others(monkeypatch):
    index, known = filled(CROWD)
    scored = []

    class Counting(Scorer):
        def opinions(self, document):
            scored.append(document)
            return super().opinions(document)

    monkeypatch.setattr("agenttool.catalog.search.index.Scorer", Counting)
    index.find("chore of the day", known, 5)
    most = len(scored)
    scored.clear()
    assert index.find("chore of the day", {each: known[each] for each in [*known][1:]}, 5)
    assert len(scored) <= most < len(known) // 2

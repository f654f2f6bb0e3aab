"""The index follows the catalog, and finds in a large one what it finds in a small one."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.catalog.entry import Entry
from agenttool.catalog.search import documents
from agenttool.catalog.search import index as search_index
from agenttool.catalog.search.documents import encode_fields
from agenttool.catalog.search.index import CANDIDATES, ToolIndex
from agenttool.catalog.search.ranking import DocumentScorer
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool

WORDS = ("create", "issue", "invoice", "send", "mail", "branch")


def entry(name, description="", namespace="test", aliases=()):
    tool = scripted_tool(name, namespace=namespace)
    declaration = replace(tool.declaration, description=description, aliases=aliases)
    return Entry(tool=dataclasses.replace(tool, declaration=declaration))


def filled(entries):
    index = ToolIndex()
    for each in entries:
        index.put(each)
    while index.catch_up(100):
        pass
    return index, {each.tool_id: each for each in entries}


def ids(found):
    return [each.tool_id for each in found]


MANY_TOOLS = [entry(f"chore_{n}", "Do what has to be done on a day.", namespace="office") for n in range(700)]


@pytest.mark.parametrize("said", [{"aliases": ["search", "web.search"]}, {"tool_id": "web.search"}])
def test_a_primary_name_takes_precedence_over_aliases_and_ids_of_other_tools(said):
    rogue = entry("rogue")
    rogue = Entry(tool=dataclasses.replace(rogue.tool, declaration=replace(rogue.tool.declaration, **said)))
    index, known = filled([entry("search", namespace="web"), rogue])
    assert index.named("web.search", known) == index.named("search", known) == ("tool_web.search",)
    assert index.named("rogue", known) == (rogue.tool_id,)
    assert ids(index.find("web.search", known, 1)) == ["tool_web.search"]


@pytest.mark.parametrize("many_tools", [MANY_TOOLS[:20], MANY_TOOLS])
def test_a_limit_above_the_number_of_tools_returns_all_matches(many_tools):
    index, known = filled(many_tools)
    assert len(index.find("a day", known, 2**70)) == len(many_tools)
    assert index.find("a day", {}, 2**70) == []


@pytest.mark.parametrize("many_tools", [MANY_TOOLS[:20], MANY_TOOLS])
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
def test_a_tool_is_found_among_any_number_of_others(query, name, many_tools):
    wanted = [
        entry("read_mail", "Show a message. Not for sending mail, mail, mail."),
        entry("mail_mail", "Mail, mail, mail."),
        entry("create_invoice", "Bill a customer."),
        entry("chinese", "打印发票并发送给客户"),
        entry("helper", "Help."),
    ]
    index, known = filled([*many_tools, *wanted])
    assert ids(index.find(query, known, 3))[0] == f"tool_test.{name}"


def test_tools_that_are_not_visible_are_not_found():
    hidden = [entry(f"invoice_{n}", "invoice invoice", namespace="hidden") for n in range(1000)]
    index, known = filled([*hidden, *MANY_TOOLS, entry("office_paper", "Print an invoice.")])
    for each in hidden:
        del known[each.tool_id]
    assert ids(index.find("invoice", known, 10)) == ["tool_test.office_paper"]


def test_the_next_search_sees_added_replaced_and_removed_tools():
    index, known = filled(MANY_TOOLS)
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
def test_an_index_after_many_changes_equals_a_new_one(changes):
    assert_equals_new_index(changes)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from(WORDS), max_size=5), st.booleans()), max_size=25
    )
)
def test_an_index_that_always_deletes_unused_words_equals_a_new_one(changes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_index, "STALE_LIMIT", 0)
        assert_equals_new_index(changes)


def assert_equals_new_index(changes):
    index, present = ToolIndex(), {}
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
    new_index, known = filled(list(present.values()))
    for query in (*WORDS, "create invoic", "a", "select"):
        assert index.find(query, known, 10) == new_index.find(query, known, 10)


@pytest.mark.parametrize("many_tools", [[], MANY_TOOLS])
def test_words_of_removed_tools_are_deleted(many_tools):
    index, known = filled(many_tools)
    for month in range(40):
        word = "".join("abcdefghij"[int(digit)] for digit in f"{month:04}")
        for number in range(200):
            tool = entry(f"tool_{number}", f"Paint zebra{word} and {word}{chr(97 + number % 26)}gnu.")
            known[tool.tool_id] = tool
            index.put(tool)
        while index.catch_up(100):
            pass
    new_index, _ = filled([*known.values()])
    words = index._store.vocabulary
    assert len(words) - len(new_index._store.vocabulary) < 10 * 27  # of 40 times as many
    assert len(index.find(f"zebra{word}", known, 5)) == 5
    assert "zebraaaaa" not in words
    assert all(each in words for each, _ in words.corrections("zebraaaaa"))


def test_a_tool_replaced_many_times_before_a_search_is_queued_once():
    index = ToolIndex()
    for number in range(1000):
        index.put(entry("painter", f"Paint {number}."))
    assert len(index._waiting) == 1
    index.catch_up(10)
    painter = entry("painter")
    assert ids(index.find("paint 999", {painter.tool_id: painter}, 1)) == [painter.tool_id]


def test_only_the_first_part_of_a_very_long_query_counts():
    index, known = filled([*MANY_TOOLS[:3], entry("paint_zebra", "Paint a zebra."), entry("wash_gnu", "Wash a gnu.")])
    found = index.find("paint a zebra. " + "and so on, " * 10_000 + "wash the gnu", known, 10)
    assert ids(found)[0] == "tool_test.paint_zebra"
    assert "tool_test.wash_gnu" not in ids(found)


def test_names_and_namespaces_may_have_dots_and_other_capitals():
    index, known = filled([entry("d.e", namespace="a.b.c"), entry("straße", namespace="ß")])
    assert ids(index.find("A.B.C.D.E", known, 1)) == ["tool_a.b.c.d.e"]
    assert ids(index.find("SS.STRASSE", known, 1)) == ["tool_ß.straße"]


@given(st.text(max_size=200))
def test_any_text_is_a_valid_query(query):
    index, known = filled(MANY_TOOLS[:3])
    assert all(0 < each.score <= 1 for each in index.find(query, known, 10))


def test_adding_or_removing_a_tool_encodes_no_other_tool(monkeypatch):
    index, known = filled(MANY_TOOLS)
    read = []
    monkeypatch.setattr(documents, "encode_fields", lambda some, words: read.extend(some) or encode_fields(some, words))
    more = [entry("paint_zebra", "Paint a zebra."), entry("paint_gnu", "Paint a gnu.")]
    for each in more:
        known[each.tool_id] = each
        index.put(each)
    index.remove(MANY_TOOLS[0].tool_id)
    assert not index.catch_up(10)
    assert read == more
    assert ids(index.find("paint a zebra", known, 1)) == ["tool_test.paint_zebra"]
    assert MANY_TOOLS[0].tool_id not in ids(index.find("chore", known, len(known)))


def test_new_tools_are_found_at_once_and_removed_ones_are_not():
    index, known = filled(MANY_TOOLS)
    for number in range(100):
        zebra = entry(f"paint_{number}", f"Paint a zebra number{number}.")
        known[zebra.tool_id] = zebra
        index.put(zebra)
        index.catch_up(1)
        assert ids(index.find(f"number{number} zebra", known, 1)) == [zebra.tool_id]
    for number in range(100):
        index.remove(f"tool_test.paint_{number}")
    assert index.find("zebra", known, 3) == []


@pytest.mark.parametrize("many_tools", [MANY_TOOLS[:20], MANY_TOOLS])
def test_an_identifier_within_a_sentence_finds_its_tool(many_tools):
    index, known = filled(
        [*many_tools, entry("send_mail", "Send mail."), entry("mail", "Send mail, mail.", aliases=["postIt"])]
    )
    assert ids(index.find("run test.send_mail, then the mail mail", known, 3))[0] == "tool_test.send_mail"
    assert ids(index.find("could you postIt for me", known, 3))[0] == "tool_test.mail"
    assert index.find("send some mail", known, 3)[0].score < 1


def test_small_talk_does_not_outweigh_the_request():
    letter = """Hello, my name is Ada and I live in Denver with my family. Yesterday my boss told me about this, and we are
    busy this week. Could you please {}? It would be great to have it before Friday evening. Thanks for your help!"""
    index, known = filled(
        [
            *MANY_TOOLS,
            entry("plan_week", "Plan the evening, the week and the year of a busy family."),
            entry("find_driver", "Find a driver."),
            entry("resize_image", "Make a picture smaller."),
        ]
    )
    assert ids(index.find(letter.format("make the picture smaller"), known, 3))[0] == "tool_test.resize_image"
    assert "tool_test.find_driver" not in ids(index.find("a trip to denver", known, 3))


@pytest.mark.parametrize("size", [60, 400, 700])
def test_a_search_scores_few_tools_in_catalogs_of_any_size(size, monkeypatch):
    index, known = filled(MANY_TOOLS[:size])
    scored = []
    score = DocumentScorer.score
    monkeypatch.setattr(DocumentScorer, "score", lambda self, each: scored.append(each) or score(self, each))
    assert len(index.find("What has to be done on a day, in an office? Do the chores.", known, 5)) == 5
    assert len(scored) == CANDIDATES


def test_a_related_word_counts_less_than_the_word():
    index, known = filled([*MANY_TOOLS, entry("send_email", "Send it."), entry("read_mail", "Read it.")])
    found = index.find("mail", known, 3)
    assert ids(found) == ["tool_test.read_mail", "tool_test.send_email"]
    assert found[1].reason == "its name says email (for mail)"
    assert found[0].score > 2 * found[1].score


def test_a_few_invisible_tools_do_not_make_a_search_score_many_others(monkeypatch):
    index, known = filled(MANY_TOOLS)
    scored = []

    class Counting(DocumentScorer):
        def score(self, document):
            scored.append(document)
            return super().score(document)

    monkeypatch.setattr("agenttool.catalog.search.index.DocumentScorer", Counting)
    index.find("chore of the day", known, 5)
    most = len(scored)
    scored.clear()
    assert index.find("chore of the day", {each: known[each] for each in [*known][1:]}, 5)
    assert len(scored) <= most < len(known) // 2


class SilentModel:
    """A semantic index that encodes every sentence and knows no tool."""

    pending = False

    def put(self, number, text):
        pass

    def encode_query(self, sentences):
        return True

    def nearest(self, sentence, limit):
        return []

    def similarity(self, sentence, numbers):
        return {}

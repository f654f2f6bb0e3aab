"""A query is cut into its wishes, and nothing else of it."""

import pytest

from agenttool.catalog.search.sentences import sentences_of


@pytest.mark.parametrize(
    ("query", "wishes"),
    [
        ("Find a hotel. Is it warm there?", ["Find a hotel", "Is it warm there", ""]),
        ("find a hotel and book it", ["find a hotel", "book it"]),
        ("Find a hotel, book it, and tell Ada", ["Find a hotel", "book it", "tell Ada"]),
        ("find a hotel, and my friends", ["find a hotel", "my friends"]),
        ("find a hotel and then a taxi", ["find a hotel", "a taxi"]),
        ("pictures of cats and dogs, mice or birds", ["pictures of cats and dogs, mice or birds"]),
        ("read config.yaml and v1.2 of it", ["read config.yaml and v1.2 of it"]),
        ("查询天气，然后发送邮件。谢谢", ["查询天气", "发送邮件", "谢谢"]),  # noqa: RUF001 -- Chinese commas
        ("", [""]),
    ],
)
def test_a_query_is_cut_where_a_wish_ends(query, wishes):
    assert sentences_of(query) == wishes


@pytest.mark.parametrize("piece", [".", "?!", " ", ", ", "a, and ", "and then ", "，"])  # noqa: RUF001 -- Chinese commas
def test_no_query_takes_longer_than_its_length(piece):
    assert len(sentences_of(piece * 100_000 + "x")) <= 100_001

"""How texts and queries are split into words and sentences."""

import pytest

from agenttool.catalog.search.tokens import split_requests, split_runs, tokens_in_query, words_in_run


def read(text):
    return [word for run in split_runs(text) for word in words_in_run(run)]


@pytest.mark.parametrize(
    "text",
    ["createPullRequest", "create_pull_request", "CreatePullRequests", "create-pull-requests", "Creates PULL requests"],
)
def test_an_identifier_is_split_however_it_is_written(text):
    assert read(text) == ["creat", "pull", "request"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parseHTTPResponse", ("pars", "http", "respons")),
        ("s3_upload base64", ("s3", "upload", "base64")),
        ("Caf\u0065\u0301 \uff21\uff22\uff23", ("café", "abc")),
        ("GitHub issues", ("git", "hub", "github", "issu")),
        ("हिन्दी में", ("हिन्दी", "में")),
        ("x" * 65, ()),
        ("", ()),
        ("…!?", ()),
    ],
)
def test_acronyms_digits_and_accents_stay_whole(text, words):
    assert read(text) == list(words)


def query_words(query):
    return [word for word, _ in tokens_in_query(query)]


def test_a_script_without_spaces_is_split_into_pairs_of_characters():
    assert read("发送邮件 now") == ["发", "送", "邮", "件", "发送", "送邮", "邮件", "now"]
    assert query_words("发送邮件") == ["发送", "送邮", "邮件"]
    assert query_words("邮") == ["邮"]


def test_query_tokens_have_their_spelling():
    found = [*tokens_in_query("Hi! Send e.mails 谢谢")]
    assert found == [("hi", "hi"), ("send", "send"), ("e", "e"), ("mail", "mails"), ("谢谢", "谢谢")]


@pytest.mark.parametrize(
    ("query", "requests"),
    [
        ("Find a hotel. Is it warm there?", ["Find a hotel", "Is it warm there", ""]),
        ("find a hotel and book it", ["find a hotel", "book it"]),
        ("Find a hotel, book it, and call Ada", ["Find a hotel", "book it", "call Ada"]),
        ("find a hotel, and my friends", ["find a hotel", "my friends"]),
        ("find a hotel and then a taxi", ["find a hotel", "a taxi"]),
        ("pictures of cats and dogs, mice or birds", ["pictures of cats and dogs, mice or birds"]),
        ("read config.yaml and v1.2 of it", ["read config.yaml and v1.2 of it"]),
        ("查询天气，然后发送邮件。谢谢", ["查询天气", "发送邮件", "谢谢"]),  # noqa: RUF001 -- Chinese commas
        ("", [""]),
    ],
)
def test_a_query_is_split_at_marks_conjunctions_and_verbs(query, requests):
    assert split_requests(query) == requests


@pytest.mark.parametrize("piece", [".", "?!", " ", ", ", "a, and ", "and then ", "，"])  # noqa: RUF001 -- Chinese commas
def test_long_queries_are_split_in_linear_time(piece):
    assert len(split_requests(piece * 100_000 + "x")) <= 100_001

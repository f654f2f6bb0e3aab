"""How texts and queries become words."""

import pytest

from agenttool.catalog.search.words import runs_of, said_words, words_of


def read(text):
    return [word for run in runs_of(text) for word in words_of(run)]


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


def said(query):
    return [each.word for each in said_words(query)]


def test_a_script_without_spaces_goes_by_pairs_of_signs():
    assert read("发送邮件 now") == ["发", "送", "邮", "件", "发送", "送邮", "邮件", "now"]
    assert said("发送邮件") == ["发送", "送邮", "邮件"]
    assert said("邮") == ["邮"]


def test_a_query_is_read_sentence_by_sentence():
    query = "Hi! Send e.mails to a.b@c.de; then stop.\nThanks 谢谢。再见"
    sentences = [[each.spelling for each in said_words(query) if each.sentence == at] for at in range(6)]
    assert sentences[:3] == [["hi"], ["send", "e", "mails", "to", "a", "b", "c", "de"], ["then", "stop"]]
    assert sentences[3:] == [["thanks", "谢谢"], ["再见"], []]

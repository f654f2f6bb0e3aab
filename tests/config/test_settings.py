"""What settings say, and what follows from it."""

import pytest

from agenttool.config import ServerSetting


@pytest.mark.parametrize(
    ("said", "reached"),
    [
        ({}, "http://127.0.0.1:8642"),
        ({"port": 9000}, "http://127.0.0.1:9000"),
        ({"host": "::1"}, "http://[::1]:8642"),
        ({"host": "10.0.0.5", "url": "https://agents.example"}, "https://agents.example"),
        ({"port": 0}, None),
        ({"host": "0.0.0.0"}, None),  # noqa: S104 -- nothing is bound here
        ({"host": "::"}, None),
    ],
)
def test_a_server_is_reached_where_it_says_or_listens_if_that_is_one_place(said, reached):
    assert ServerSetting(**said).reached == reached

"""Bodies of requests: the memory for those that arrive slowly is bounded."""

from agenttool.http import request_body
from agenttool.http.request_body import UNCOUNTED_BYTES, BodyBudget


def test_what_is_held_is_given_back_and_short_messages_always_have_room(monkeypatch):
    monkeypatch.setattr(request_body, "MAX_BUFFERED_BYTES", 100)
    held = BodyBudget()
    with held.reserve() as first, held.reserve() as second, held.reserve() as third:
        assert first(UNCOUNTED_BYTES + 60)
        assert second(UNCOUNTED_BYTES + 40)
        assert not third(UNCOUNTED_BYTES + 1)
        assert third(UNCOUNTED_BYTES)
    with held.reserve() as again:
        assert again(UNCOUNTED_BYTES + 100)
        assert not again(UNCOUNTED_BYTES + 101)

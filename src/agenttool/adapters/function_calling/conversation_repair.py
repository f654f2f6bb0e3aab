"""Conversations that were stored elsewhere: every call gets its result, or one that says it was interrupted."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agenttool.records import Json, JsonObject

Position = tuple[int, int]
"""Where a call or a result is: the turn, and the place within it."""


def match_key(*parts: Json) -> str:
    """Return the key by which a call and its result match, whatever values they have."""
    return repr(parts)


def match_results(
    calls: Iterable[tuple[Position, str]], results: Iterable[tuple[Position, str]]
) -> dict[Position, Position]:
    """Match each call with the first result of its key that comes before a later turn uses the key again."""
    items = [*((place, key, False) for place, key in calls), *((place, key, True) for place, key in results)]
    unmatched: dict[str, list[Position]] = {}
    found: dict[Position, Position] = {}
    for place, key, is_result in sorted(items, key=lambda each: each[0]):
        if not is_result:
            before = unmatched.get(key, [])
            unmatched[key] = [*(each for each in before if each[0] == place[0]), place]
        elif unmatched.get(key):
            found[unmatched[key].pop(0)] = place
    return found


def unique_ids(given: Sequence[Json]) -> list[str]:
    """Return a unique id for each call: its own, unless that is missing or an earlier call has it."""
    present = {each for each in given if isinstance(each, str)}
    assigned: dict[str, None] = {}
    for place, each in enumerate(given):
        own = each if isinstance(each, str) and each and each not in assigned else f"call_{place}"
        while own in assigned or (own != each and own in present):
            own += "_"
        assigned[own] = None
    return [*assigned]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageParts:
    """How a format stores calls and results as parts of messages.

    Attributes:
        parts: the parts of a message.
        call_key: the match key of a call; None for any other part.
        result_key: the match key of a result; None for any other part.
        id_of: the id that a call came with, if any.
        with_id: a call that the API accepts, under a unique id.
        result_for: a result, changed to refer to a call.
        interrupted: a result for a call that has none.
        holds_results: whether a message is of the kind that results come in.
        with_parts: a message with other parts.
        result_messages: new messages with results.
        fallback_key: the match key for a call or a result that found no counterpart by id; None for no match.
    """

    parts: Callable[[object], list[JsonObject]]
    call_key: Callable[[JsonObject], str | None]
    result_key: Callable[[JsonObject], str | None]
    id_of: Callable[[JsonObject], Json]
    with_id: Callable[[JsonObject, str], JsonObject]
    result_for: Callable[[JsonObject, JsonObject], JsonObject]
    interrupted: Callable[[JsonObject], JsonObject]
    holds_results: Callable[[object], bool]
    with_parts: Callable[[object, list[Json]], JsonObject]
    result_messages: Callable[[list[Json]], list[JsonObject]]
    fallback_key: Callable[[JsonObject], str | None] = lambda _: None

    def repair(self, messages: Sequence[object], /) -> list[object]:
        """Return a conversation in which every call has a result; a missing one is replaced by `interrupted`.

        The results of a message's calls come first in the message after it. A result without a call is dropped.
        """
        parts = [self.parts(each) for each in messages]
        positions = [(turn, place) for turn, inside in enumerate(parts) for place in range(len(inside))]
        calls = list(_keyed(parts, positions, self.call_key))
        results = list(_keyed(parts, positions, self.result_key))
        matches = match_results(calls, results)
        matches |= match_results(
            _keyed(parts, [at for at, _ in calls if at not in matches], self.fallback_key),
            _keyed(parts, [at for at, _ in results if at not in matches.values()], self.fallback_key),
        )
        ids = unique_ids([self.id_of(parts[turn][place]) for (turn, place), _ in calls])
        repeated = {at: self.with_id(parts[at[0]][at[1]], own) for (at, _), own in zip(calls, ids, strict=True)}
        repaired: list[object] = []
        pending: list[Json] = []
        for turn, message in enumerate(messages):
            others = [(turn, place) for place, each in enumerate(parts[turn]) if self.result_key(each) is None]
            if pending and not self.holds_results(message):
                repaired += self.result_messages(pending)
                pending = []
            whole: list[Json] = [*pending, *(repeated.get(at, parts[turn][at[1]]) for at in others)]
            if whole == parts[turn]:
                repaired.append(message)
            elif whole:
                repaired.append(self.with_parts(message, whole))
            pending = []
            for at in (each for each in others if each in repeated):
                found = matches.get(at)
                pending.append(
                    self.interrupted(repeated[at])
                    if found is None
                    else self.result_for(parts[found[0]][found[1]], repeated[at])
                )
        return [*repaired, *self.result_messages(pending)] if pending else repaired


def _keyed(
    parts: Sequence[Sequence[JsonObject]], positions: Iterable[Position], key_of: Callable[[JsonObject], str | None]
) -> Iterable[tuple[Position, str]]:
    for turn, place in positions:
        key = key_of(parts[turn][place])
        if key is not None:
            yield (turn, place), key

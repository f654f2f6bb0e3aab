"""Conversations that others kept: every call finds its result, or is told to have been interrupted."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agenttool.records import Json, JsonObject

Place = tuple[int, int]
"""Where a call or a result stands: in which turn, and there at which place."""


def known_by(*words: Json) -> str:
    """Give the words by which a call and its result know each other, whatever a model or a program made of them."""
    return repr(words)


def pair(calls: Iterable[tuple[Place, str]], results: Iterable[tuple[Place, str]]) -> dict[Place, Place]:
    """Find the result of each call: the first that comes under its key before a later turn uses the key again."""
    told = [*((place, key, False) for place, key in calls), *((place, key, True) for place, key in results)]
    waiting: dict[str, list[Place]] = {}
    found: dict[Place, Place] = {}
    for place, key, is_result in sorted(told, key=lambda each: each[0]):
        if not is_result:
            before = waiting.get(key, [])
            waiting[key] = [*(each for each in before if each[0] == place[0]), place]
        elif waiting.get(key):
            found[waiting[key].pop(0)] = place
    return found


def own_ids(given: Sequence[Json]) -> list[str]:
    """Give each call of a conversation an id of its own: the one it has, unless it has none or one before it has it."""
    there = {each for each in given if isinstance(each, str)}
    taken: dict[str, None] = {}
    for place, each in enumerate(given):
        own = each if isinstance(each, str) and each and each not in taken else f"call_{place}"
        while own in taken or (own != each and own in there):
            own += "_"
        taken[own] = None
    return [*taken]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a conversation is built whose calls and results are parts of messages.

    Attributes:
        parts: the parts of a message; what is no list of parts is one.
        call: what a call is known by; nothing for any other part.
        result: what a result is known by; nothing for any other part.
        id_of: the id that a call came with, if it did.
        mended: a call as it can be sent again, under an id of its own.
        answering: a result, as that of a call.
        interrupted: a result for a call that has none.
        is_reply: a message is of the kind that results come in.
        rewritten: a message with other parts.
        reply: a message of results.
        loosely: what a call or a result is known by if the other of the two said less of itself.
    """

    parts: Callable[[object], list[JsonObject]]
    call: Callable[[JsonObject], str | None]
    result: Callable[[JsonObject], str | None]
    id_of: Callable[[JsonObject], Json]
    mended: Callable[[JsonObject, str], JsonObject]
    answering: Callable[[JsonObject, JsonObject], JsonObject]
    interrupted: Callable[[JsonObject], JsonObject]
    is_reply: Callable[[object], bool]
    rewritten: Callable[[object, list[Json]], JsonObject]
    reply: Callable[[list[Json]], JsonObject]
    loosely: Callable[[JsonObject], str | None] = lambda _: None


def settle_parts(messages: Sequence[object], shape: Shape) -> list[object]:
    """Put the results of each message's calls first into the message after it; a result without a call goes."""
    parts = [shape.parts(each) for each in messages]
    calls = list(_known(parts, shape.call))
    results = list(_known(parts, shape.result))
    answers = pair(calls, results)
    answers |= pair(
        _loosely(parts, shape, (at for at, _ in calls if at not in answers)),
        _loosely(parts, shape, (at for at, _ in results if at not in answers.values())),
    )
    ids = own_ids([shape.id_of(parts[turn][place]) for (turn, place), _ in calls])
    mended = {at: shape.mended(parts[at[0]][at[1]], own) for (at, _), own in zip(calls, ids, strict=True)}
    settled: list[object] = []
    owed: list[Json] = []
    for turn, message in enumerate(messages):
        kept = [(turn, place) for place, each in enumerate(parts[turn]) if shape.result(each) is None]
        if owed and not shape.is_reply(message):
            settled.append(shape.reply(owed))
            owed = []
        whole: list[Json] = [*owed, *(mended.get(at, parts[turn][at[1]]) for at in kept)]
        if whole == parts[turn]:
            settled.append(message)
        elif whole:
            settled.append(shape.rewritten(message, whole))
        owed = []
        for at in (each for each in kept if each in mended):
            found = answers.get(at)
            owed.append(
                shape.interrupted(mended[at])
                if found is None
                else shape.answering(parts[found[0]][found[1]], mended[at])
            )
    return [*settled, shape.reply(owed)] if owed else settled


def _known(
    parts: Sequence[Sequence[JsonObject]], key_of: Callable[[JsonObject], str | None]
) -> Iterable[tuple[Place, str]]:
    for turn, inside in enumerate(parts):
        for place, each in enumerate(inside):
            key = key_of(each)
            if key is not None:
                yield (turn, place), key


def _loosely(
    parts: Sequence[Sequence[JsonObject]], shape: Shape, places: Iterable[Place]
) -> Iterable[tuple[Place, str]]:
    for turn, place in places:
        key = shape.loosely(parts[turn][place])
        if key is not None:
            yield (turn, place), key

"""The real source of ids: UUIDv7, unique and in order, whoever asks and however fast."""

import threading
import uuid

from agenttool.world import UniqueIds

MANY = 20_000


def test_ids_are_version_7_unique_and_in_order():
    ids = UniqueIds()
    made = [ids.unique() for _ in range(MANY)]
    assert len(set(made)) == MANY
    assert made == sorted(made)
    assert {uuid.UUID(each).version for each in made} == {7}
    assert {uuid.UUID(each).variant for each in made} == {uuid.RFC_4122}


def test_threads_that_share_a_source_never_get_the_same_id():
    ids, made, together = UniqueIds(), [], threading.Barrier(4)

    def make():
        together.wait()
        made.extend([ids.unique() for _ in range(MANY)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(made)) == 4 * MANY


def test_two_sources_never_give_the_same_id():
    one, other = UniqueIds(), UniqueIds()
    assert {one.unique() for _ in range(MANY)}.isdisjoint({other.unique() for _ in range(MANY)})

"""What was found out once is kept, and a cache that cannot be used is no harm."""

from agenttool.adapters.embedding.kept import FILE, Kept, content_of


def test_vectors_outlive_the_process_that_made_them(tmp_path):
    first = Kept(tmp_path)
    first.keep({b"one": b"\1\2", b"two": b"\3\4"})
    first.close()
    again = Kept(tmp_path)
    assert again.find([b"two", b"three"]) == {b"two": b"\3\4"}
    again.close()


def test_two_programs_share_a_file(tmp_path):
    one, other = Kept(tmp_path), Kept(tmp_path)
    one.keep({b"one": b"\1"})
    other.keep({b"two": b"\2"})
    assert one.find([b"two"]) | other.find([b"one"]) == {b"one": b"\1", b"two": b"\2"}
    one.close()
    other.close()


def test_a_damaged_file_or_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / FILE).write_bytes(b"rubbish" * 1000)
    for folder in (tmp_path, tmp_path / "nowhere", None):
        kept = Kept(folder)
        kept.keep({b"one": b"\1"})
        assert kept.find([b"one"]) == {b"one": b"\1"}
        kept.close()
    assert (tmp_path / FILE).read_bytes() == b"rubbish" * 1000


def test_a_text_is_another_to_another_model():
    assert content_of("small", "rain") != content_of("large", "rain")
    assert content_of("small", "rain\ud800") != content_of("small", "rain")

from agenttool.codec.moments import timestamp


def test_a_moment_is_written_in_utc_to_the_microsecond():
    assert timestamp(1_778_198_400_000_001_999) == "2026-05-08T00:00:00.000001Z"
    assert timestamp(0) == "1970-01-01T00:00:00.000000Z"

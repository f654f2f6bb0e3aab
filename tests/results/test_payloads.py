import pytest

from agenttool.codec import digest_of_bytes
from agenttool.records import ContentClass, ContentItem, Ref, ToolResult
from agenttool.results.payloads import (
    Payload,
    class_of,
    expire_payload,
    media_type_of,
    payload_of,
    readable_text,
    sniff,
)


@pytest.fixture
def payload():
    return payload_of(b"bytes", media_type="text/plain", relation="full_output_of_result")


def test_a_payload_ref_has_all_six_facts_and_a_digest_that_checks(payload):
    assert payload == Payload(
        data=b"bytes",
        ref=Ref(
            id="payload:" + digest_of_bytes(b"bytes"),
            uri="payload:" + digest_of_bytes(b"bytes"),
            media_type="text/plain",
            digest=digest_of_bytes(b"bytes"),
            size_bytes=5,
            access={"scope": "runtime"},
            relation="full_output_of_result",
            redaction_state="none",
        ),
    )


@pytest.mark.requirement("AT-REF-07")
def test_an_expired_ref_stays_listed_with_its_expiry(payload):
    other = Ref(id="other")
    item = ContentItem(type=ContentClass.PERSISTED_OUTPUT_REF, ref=payload.ref)
    result = ToolResult(
        result_id="res_1",
        invocation_id="inv_1",
        status="succeeded",
        content=(item,),
        resource_refs=(payload.ref, other),
        created_at="now",
    )
    expired = expire_payload(result, payload.ref.id, expires_at="2026-06-01T00:00:00Z")
    assert [ref.id for ref in expired.resource_refs] == [payload.ref.id, "other"]
    assert [ref.expires_at for ref in expired.resource_refs] == ["2026-06-01T00:00:00Z", None]
    assert expired.content[0].ref.expires_at == "2026-06-01T00:00:00Z"
    assert (expired.artifact_refs, expired.model_facing_content) == (None, None)


@pytest.mark.parametrize(
    ("first", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"\x00\x00\x00\x18ftypmp42", "video/mp4"),
        (b"\x00\x00\x00\x18ftypavif", "image/avif"),
        (b"%PDF-1.7", "application/pdf"),
        (b"BM\x00\x00\x01\x02", "image/bmp"),
        (b"BMW drives", None),
        (b"RIFF\x00\x00\x00\x00????", None),
        (b"\x01\x02", None),
    ],
)
def test_the_first_bytes_give_the_type_away(first, media_type):
    assert sniff(first) == media_type


def test_what_was_declared_counts_then_the_bytes_then_text_then_nothing():
    assert media_type_of(b"%PDF-1", "text/x-odd") == "text/x-odd"
    assert media_type_of(b"%PDF-1") == "application/pdf"
    assert media_type_of("häuser\n".encode()) == "text/plain; charset=utf-8"
    assert media_type_of(b"\x00\xff") == "application/octet-stream"


def test_a_media_type_has_a_content_class():
    kinds = ("image/png", "audio/wav", "Video/MP4", "text/csv", "application/pdf", "nonsense")
    assert [class_of(kind) for kind in kinds] == [
        ContentClass.IMAGE,
        ContentClass.AUDIO,
        ContentClass.VIDEO,
        ContentClass.FILE,
        ContentClass.FILE,
        ContentClass.FILE,
    ]


def test_text_with_control_characters_is_not_for_reading():
    assert readable_text(b"tab\tand\r\nlines") == "tab\tand\r\nlines"
    assert readable_text(b"nul\x00") is None
    assert readable_text(b"\xff") is None

import pytest

from agenttool.codec import digest_of_bytes
from agenttool.records import ContentClass, ContentItem, Ref, ToolResult
from agenttool.results.refs import Payload, expire_payload, has_expired, payload_of, stored_at


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


def test_the_store_gives_the_address(payload):
    assert stored_at(payload, "file:///payloads/x").uri == "file:///payloads/x"
    assert stored_at(payload, "file:///payloads/x").id == payload.ref.id


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
    assert has_expired(expired.content[0].ref, "2026-06-01T00:00:00Z")
    assert not has_expired(expired.content[0].ref, "2026-05-31T00:00:00Z")
    assert not has_expired(other, "2030-01-01T00:00:00Z")

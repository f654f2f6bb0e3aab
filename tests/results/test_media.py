import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.codec import digest_of_bytes, to_json
from agenttool.ports.output import Media, NativeOutput
from agenttool.records import ContentClass, ContentItem
from agenttool.results.media import MediaExtractor, find_media
from agenttool.results.redaction import compile_scrubber

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
PNG_ID = "payload:" + digest_of_bytes(PNG)
CODED = base64.b64encode(PNG).decode()
NOISE = random.Random(7).randbytes(3000)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"see data:image/png;base64,{CODED} here", f"see [image/png, {len(PNG)} bytes, {PNG_ID}] here"),
        (f"![shot](data:image/png;name=a.png;base64,{CODED})", f"![shot]([image/png, {len(PNG)} bytes, {PNG_ID}])"),
        (f"output: {CODED}", f"output: [image/png, {len(PNG)} bytes, {PNG_ID}]"),
        (CODED, PNG_ID),
        (base64.urlsafe_b64encode(PNG).decode(), PNG_ID),
        (base64.encodebytes(PNG).decode(), PNG_ID),
        (f"data:;base64,{CODED}", PNG_ID),
    ],
    ids=["data url", "markdown", "bare", "only", "url safe", "wrapped", "untyped"],
)
def test_user_ask_5_media_is_lifted_out_of_text(text, left):
    extractor = MediaExtractor()
    assert extractor.text(text) == left
    assert [payload.data for payload in extractor.payloads] == [PNG]
    [item] = extractor.items
    assert (item.type, item.media_type, item.ref.digest) == (ContentClass.IMAGE, "image/png", digest_of_bytes(PNG))


def test_user_ask_5_the_model_gets_the_image_and_not_its_letters(mapped):
    found = mapped({"screenshot": CODED, "title": "home"})
    kinds = [item.type for item in found.result.model_facing_content]
    assert kinds == [ContentClass.TEXT, ContentClass.IMAGE]
    assert CODED[:60] not in str(to_json(found.result))
    assert found.result.structured_content == {"screenshot": PNG_ID, "title": "home"}
    assert found.chars < 400


def test_media_that_a_protocol_put_into_its_item_is_lifted(mapped):
    native = ContentItem(type=ContentClass.IMAGE, data=CODED, media_type="image/png", name="shot.png")
    found = mapped(NativeOutput(content=(native,)))
    assert [payload.data for payload in found.payloads] == [PNG]
    [item] = found.result.content
    assert (item.name, item.ref.id) == ("shot.png", PNG_ID)


def test_a_neighbour_names_the_type_that_the_bytes_do_not_give_away():
    extractor = MediaExtractor()
    extractor.value({"type": "audio", "mimeType": "audio/pcm", "data": base64.b64encode(NOISE).decode()})
    assert [item.type for item in extractor.items] == [ContentClass.AUDIO]


@pytest.mark.parametrize(
    "text",
    [
        "word " * 500,
        "ACGT" * 500,
        "deadbeef" * 200,
        "a" * 3000,
        "x" * 600 + " " + "y" * 600,
        "\n".join(["one", "two", "three"] * 300),
        "-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(NOISE).decode() + "-----END CERTIFICATE-----\n",
        "data:image/png;base64,AAAA",
        "data:image/png;base64,!!!!" + "?" * 100,
        "/".join(["usr", "local", "lib"] * 100),
    ],
    ids=["prose", "bases", "hex", "one letter", "two words", "list", "armor", "tiny", "broken", "path"],
)
def test_what_only_looks_like_base64_stays_text(text):
    assert find_media(text) == []


@given(st.text(max_size=2000))
def test_ordinary_text_is_given_back_as_it_is(text):
    assert MediaExtractor().text(text) is text


def test_equal_media_is_stored_once():
    extractor = MediaExtractor()
    extractor.value({"a": CODED, "b": [CODED], "c": f"see {CODED}"})
    extractor.add_media(Media(PNG))
    assert len(extractor.payloads) == 1


def test_a_secret_inside_media_is_masked_without_moving_a_byte():
    extractor = MediaExtractor(compile_scrubber(["correct horse"]))
    item = extractor.add_media(Media(b"\x00\x01correct horse\x02", "application/x-thing", "correct horse.bin"))
    assert extractor.payloads[0].data == b"\x00\x01" + b"*" * 13 + b"\x02"
    assert (item.name, item.redaction_state, extractor.has_masked) == ("[redacted].bin", "partial", True)


def test_a_secret_in_the_caption_of_media_is_masked(mapped):
    item = ContentItem(type=ContentClass.IMAGE, data=CODED, text="a correct horse", media_type="image/png")
    result = mapped(NativeOutput(content=(item,)), scrubber=compile_scrubber(["correct horse"])).result
    assert (result.content[0].text, result.redaction_state) == ("a [redacted]", "partial")


def test_a_file_that_is_text_is_read_to_the_model(mapped):
    result = mapped(b"line one\nline two\n").result
    assert result.content[0].type is ContentClass.FILE
    assert result.model_facing_content[0].text.endswith("\nline one\nline two\n")


@pytest.mark.parametrize("data", [CODED, f"data:image/png;base64,{CODED}", PNG, "iVBORw0KGgo="])
def test_media_inside_of_an_embedded_resource_becomes_its_ref(mapped, data):
    native = ContentItem(type=ContentClass.EMBEDDED_RESOURCE, data=data, uri="file:///shot", media_type="image/png")
    [item] = mapped(NativeOutput(content=(native,))).result.content
    assert (item.type, item.uri, item.media_type) == (ContentClass.EMBEDDED_RESOURCE, "file:///shot", "image/png")
    assert item.ref.id.startswith("payload:sha256:")
    assert "data" not in to_json(item)


def test_what_is_said_to_be_media_and_is_not_stays_a_value(mapped):
    native = ContentItem(type=ContentClass.IMAGE, data={"width": 3})
    [item] = mapped(NativeOutput(content=(native,))).result.content
    assert item == native

"""Asks about what comes back."""

import base64
import json
import re

from agenttool import Runtime, tool
from agenttool.codec import digest_of_bytes

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_ask_04_a_result_of_megabytes_is_a_success_with_a_preview_and_stored_whole(allow, records):
    text = "\n".join(f"line {number}" for number in range(150_000))

    @tool
    async def dump() -> str:
        """Return a log. Not for a little."""
        return text

    async with Runtime.open(tools=[dump], rules=allow) as rt:
        result = await rt.call("dump", {}, surface=await rt.surface())
        (decision,) = await records(rt, "tool_result_persistence")
        stored = await rt.journal.payload(decision["persisted_ref"]["digest"])
    preview = result.model_facing_content[0].text
    assert result.status == "succeeded"
    assert len(preview) < 30_000
    assert "line 0\n" in preview
    assert "line 149999" in preview
    assert "150000 lines" in preview
    assert stored.decode() == text
    assert decision["persisted_ref"]["digest"] == digest_of_bytes(text.encode())
    assert any(item.type == "persisted_output_ref" for item in result.content)


async def test_ask_04_the_way_back_that_a_preview_names_leads_back(allow):
    @tool
    async def dump() -> str:
        """Return a log. Not for a little."""
        return "\n".join(f"line {number}" for number in range(20_000))

    async with Runtime.open(tools=[dump], rules=allow) as rt:
        surface = await rt.surface()
        preview = (await rt.call("dump", {}, surface=surface)).model_facing_content[0].text
        name, arguments = re.search(r"call (\w+) with (\{.*\})", preview).groups()
        more = await rt.call(name, arguments, surface=surface)
    assert not more.is_error
    assert f"line {json.loads(arguments)['start_line']}" in more.model_facing_content[0].text


async def test_ask_05_an_image_is_an_image_and_its_base64_is_in_no_text(allow):
    spelled = base64.b64encode(PNG).decode()

    @tool
    async def shot() -> bytes:
        """Take a screenshot. Not for text."""
        return PNG

    @tool
    async def page() -> str:
        """Give a page with a picture in it. Not for pictures alone."""
        return f"before <img src='data:image/png;base64,{spelled}'> after"

    @tool
    async def card() -> dict[str, str]:
        """Give a card with a picture in it. Not for pictures alone."""
        return {"name": "ada", "photo": f"data:image/png;base64,{spelled}"}

    async with Runtime.open(tools=[shot, page, card], rules=allow) as rt:
        surface = await rt.surface()
        results = [await rt.call(name, {}, surface=surface) for name in ("shot", "page", "card")]
    for result in results:
        image = next(item for item in result.content if item.type == "image")
        assert image.ref.digest == digest_of_bytes(PNG)
        assert image.ref.media_type == "image/png"
        assert spelled[:40] not in repr(result)
    assert "before" in results[1].model_facing_content[0].text
    assert "ada" in results[2].model_facing_content[0].text

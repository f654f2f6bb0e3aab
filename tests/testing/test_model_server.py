"""A scripted model says what is wrong with a script that does not fit the requests."""

import pytest
from openai import BadRequestError, OpenAI

from agenttool import sync, tool
from agenttool.testing import reply, serve_model, stream


@tool(read_only=True)
def stock(article: str) -> int:
    """Count the pieces of an article."""
    return 7


@pytest.mark.parametrize(
    ("script", "is_streamed", "reason"),
    [
        ([reply("openai", text="7")], True, r"request 1 is for a stream, .* use stream\(\.\.\.\)"),
        ([stream("openai", text="7")], False, r"request 1 is for a complete reply, .* use reply\(\.\.\.\)"),
        ([], False, "the script has no reply to request 1"),
    ],
)
def test_a_script_that_does_not_fit_the_request_is_an_error_with_the_remedy(script, is_streamed, reason):
    with serve_model(script) as model, sync.open(tools=[stock]) as rt:
        client = OpenAI(base_url=model.url, api_key="none")
        with pytest.raises(BadRequestError, match=reason):
            rt.run(client, "How much soap is left?", model="gpt-5", stream=is_streamed)

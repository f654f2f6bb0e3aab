"""A digest in a record binds a decision to its input, and does not let anybody guess what was hidden."""

import asyncio
from typing import Annotated

from hypothesis import given
from hypothesis import strategies as st

from agenttool import Runtime, Sensitive, tool
from agenttool.codec import digest_of, digest_of_bytes, sorted_json
from agenttool.ports.evidence import input_digest
from agenttool.results.redaction import compile_redactor

PIN = compile_redactor(["pin"])
keys = st.binary(min_size=32, max_size=32).filter(any)
inputs = st.fixed_dictionaries({"user": st.text(), "pin": st.integers(0, 9999)})


@given(inputs, inputs, keys)
def test_equal_inputs_and_only_those_have_equal_digests(first, second, key):
    both = input_digest(first, PIN, key), input_digest(second, PIN, key)
    assert (both[0] == both[1]) == (first == second)


@given(inputs, keys)
def test_a_sealed_digest_is_none_that_can_be_taken_without_the_key(value, key):
    shown = {**value, "pin": "[redacted]"}
    guesses = [digest_of(value), digest_of(shown), digest_of_bytes(sorted_json(value)), input_digest(value, PIN, b"")]
    assert input_digest(value, PIN, key) not in guesses


def test_no_record_of_a_call_with_a_short_secret_gives_it_away():
    @tool(approval_required=True)
    async def pay(amount: int, pin: Annotated[int, Sensitive]) -> str:
        """Pay. Not for refunds."""
        return "paid"

    async def run(answer):
        async with asyncio.timeout(60), Runtime.open(tools=[pay], approve="wait") as runtime:
            surface = await runtime.surface()
            calling = asyncio.ensure_future(runtime.call("pay", {"amount": 5, "pin": 1234}, surface=surface))
            async for _, event in runtime.journal.events():
                if event.data.get("prompted"):
                    break
            questions = await runtime.approvals.list()
            await runtime.approvals.decide(questions[0].approval_id, "allow", input=answer)
            result = await calling
            assert result.status == "succeeded"
            return str([record async for record in runtime.journal.export()]) + str(questions)

    guesses = [digest_of({"amount": 5, "pin": pin}) for pin in range(10_000)]
    for answer in (None, {"amount": 5, "pin": 4321}):
        recorded = asyncio.run(run(answer))
        assert "sha256:" in recorded
        assert not any(guess in recorded for guess in guesses)

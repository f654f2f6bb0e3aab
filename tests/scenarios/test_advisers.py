"""Classifiers and policy engines: their votes count, are recorded, and never outrank a rule."""

import asyncio

import pytest

from agenttool import Runtime, tool
from agenttool.ports.advice import Advice, Adviser
from agenttool.records import Behavior, ClassifierAuthority

APPROVE, DENY, RECOMMEND = ClassifierAuthority.APPROVE, ClassifierAuthority.DENY, ClassifierAuthority.RECOMMEND


@tool(open_world=False, sensitive=["key"])
async def pay(amount: int, key: str = "") -> str:
    """Pay. Not for getting paid."""
    return f"paid {amount}"


class Judge:
    def __init__(self, answer):
        self.answer, self.asked = answer, []

    async def advise(self, question):
        self.asked.append(question)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def adviser(answer, **options):
    return Adviser(ref="advisers/test", judge=answer if isinstance(answer, Judge) else Judge(answer), **options)


@pytest.mark.requirement("AT-PERM-24")
async def test_an_opinion_is_recorded_with_the_decision_it_went_into(call, call_records):
    judge = Judge(Advice(behavior=Behavior.ALLOW, confidence=0.9, reason="small amounts are fine"))
    async with Runtime.open(tools=[pay], advisers=[adviser(judge, authority=APPROVE)]) as rt:
        recorded = await call_records(rt, await call(rt, "pay", {"amount": 5, "key": "s3cret-key"}))
    assert recorded.result["status"] == "succeeded"
    (decision,) = recorded.decisions
    assert decision["behavior"] == "allow"
    assert decision["reason"]["details"]["opinions"][0]["ref"] == "advisers/test"
    assert judge.asked[0].input == {"amount": 5, "key": "[redacted]"}


@pytest.mark.parametrize(
    ("answer", "options", "rules", "ends"),
    [
        (Advice(behavior=Behavior.DENY), {}, "allow", "denied"),
        (Advice(behavior=Behavior.DENY), {"authority": RECOMMEND}, "allow", "succeeded"),
        (Advice(behavior=Behavior.ALLOW), {"authority": APPROVE}, "deny", "denied"),
        (Advice(behavior=Behavior.ALLOW), {"authority": DENY}, None, "denied"),
        (OSError("no connection"), {"is_engine": True}, "allow", "denied"),
        ("rubbish", {"is_engine": True}, "allow", "denied"),
        (OSError("no connection"), {"authority": APPROVE}, "allow", "denied"),
        (OSError("no connection"), {"authority": DENY}, "allow", "denied"),
        (OSError("no connection"), {"authority": RECOMMEND}, "allow", "succeeded"),
        (Advice(), {"authority": APPROVE}, "allow", "succeeded"),
        (Advice(), {"authority": DENY}, "allow", "succeeded"),
        (Advice(), {"is_engine": True}, "allow", "denied"),
    ],
)
async def test_the_strictest_word_wins_and_an_adviser_that_fails_denies(call, rule, answer, options, rules, ends):
    book = [rule(rules, "*")] if rules else []
    async with Runtime.open(tools=[pay], rules=book, approve="deny", advisers=[adviser(answer, **options)]) as rt:
        assert (await call(rt, "pay", {"amount": 1})).status == ends


@pytest.mark.parametrize(
    ("answer", "is_engine", "message"),
    [
        (
            OSError(),
            False,
            "classifier 'advisers/test' failed to answer, so the call is denied; repair it, or give it ",
        ),
        (Advice(), True, "engine 'advisers/test' has no policy for this call, so the call is denied; add one"),
        (Advice(behavior=Behavior.DENY), False, "classifier 'advisers/test' denies this call"),
    ],
)
async def test_the_message_says_what_an_adviser_did(call, allow, answer, is_engine, message):
    async with Runtime.open(tools=[pay], rules=allow, advisers=[adviser(answer, is_engine=is_engine)]) as rt:
        assert (await call(rt, "pay", {"amount": 1})).error.message.startswith(message)


async def test_an_adviser_that_does_not_answer_in_time_has_failed(call, allow):
    class Slow:
        async def advise(self, question):
            await asyncio.Event().wait()

    slow = Adviser(ref="slow", judge=Slow(), is_engine=True, timeout_s=0.01)
    async with Runtime.open(tools=[pay], rules=allow, advisers=[slow]) as rt:
        assert (await call(rt, "pay", {"amount": 1})).status == "denied"

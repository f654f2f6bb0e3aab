"""The port of classifiers and policy engines, whose advice is a recorded input of a permission decision."""

from dataclasses import dataclass
from typing import Protocol

from agenttool.records import Behavior, ClassifierAuthority, JsonObject, ToolId


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceQuestion:
    """The call that an adviser evaluates; sensitive fields are redacted unless the adviser is trusted."""

    tool_id: ToolId
    tool_name: str
    input: JsonObject
    actor_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The advice of one adviser: a behavior with its reason, or no behavior if it abstains."""

    behavior: Behavior | None = None
    confidence: float | None = None
    reason: str | None = None
    policy_refs: tuple[str, ...] = ()


class Judge(Protocol):
    """Evaluates calls: a model, a service or another process."""

    async def advise(self, question: AdviceQuestion) -> Advice:
        """Return the advice on a call. An exception, a timeout or an invalid answer is recorded as failed advice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adviser:
    """A judge with its authority in this runtime.

    Attributes:
        ref: the name under which its advice is recorded.
        is_engine: it evaluates policy, so that an abstention denies the call; a classifier estimates, and its
            abstention is no vote.
        authority: `recommend` changes nothing, `deny` can only deny, `approve` can also allow. None of them overrides
            a rule's deny or ask. If the judge fails, the call is denied, unless the authority is `recommend`.
    """

    ref: str
    judge: Judge
    authority: ClassifierAuthority = ClassifierAuthority.DENY
    is_engine: bool = False
    is_trusted: bool = False
    timeout_s: float = 10.0

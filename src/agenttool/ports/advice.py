"""Classifiers and policy engines: asked about a call, heard as recorded inputs of its decision."""

from dataclasses import dataclass
from typing import Protocol

from agenttool.records import Behavior, ClassifierAuthority, JsonObject, ToolId


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceQuestion:
    """What an adviser is told of a call; sensitive fields are redacted unless it is trusted with them."""

    tool_id: ToolId
    tool_name: str
    input: JsonObject
    actor_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What an adviser says: nothing at all, or a word with its reason."""

    behavior: Behavior | None = None
    confidence: float | None = None
    reason: str | None = None
    policy_refs: tuple[str, ...] = ()


class Judge(Protocol):
    """Whoever gives advice: a model, a service, another process."""

    async def advise(self, question: AdviceQuestion) -> Advice:
        """Look at a call. Whatever this raises is an opinion that failed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adviser:
    """A judge, and what its word is worth here.

    Attributes:
        ref: the name under which its opinions are recorded.
        is_engine: it evaluates policy, so that its silence is a refusal; a classifier judges by likeness.
        authority: `recommend` changes nothing, `deny` can only refuse, `approve` can also allow. None of them beats a
            rule's deny or ask.
    """

    ref: str
    judge: Judge
    authority: ClassifierAuthority = ClassifierAuthority.DENY
    is_engine: bool = False
    is_trusted: bool = False
    timeout_s: float = 10.0

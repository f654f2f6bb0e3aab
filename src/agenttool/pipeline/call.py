"""What every phase may see of one call, and what a running tool may do with it."""

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from agenttool.catalog.surface import Surface
from agenttool.journal import steps
from agenttool.pipeline.core import Core
from agenttool.pipeline.evidence import Decided, Progressed, Request
from agenttool.pipeline.tool import Tool
from agenttool.policy.opinions import HookHint
from agenttool.policy.verdict import Verdict
from agenttool.ports.facts import FactData, Step
from agenttool.records import (
    AbortReason,
    DecisionId,
    InvocationId,
    InvocationStatus,
    Json,
    JsonObject,
    Live,
    Phase,
    ProgressStatus,
    ResultId,
    ToolId,
    ToolResult,
)
from agenttool.results.scrub import Scrubber, compile_scrubber
from agenttool.scheduler.deadlines import Deadline
from agenttool.scheduler.drive import Drive
from agenttool.scheduler.lines import Turn

_NO_CREDENTIALS: Mapping[str, str] = MappingProxyType({})
_UNRESOLVED = ToolId("tool_unresolved")


class Call(Live, eq=False):
    """One call on its way. It is also the `Job` that its executor is handed.

    Attributes:
        unique: what its id and those of all its records are made of.
        fault: what was wrong with the arguments before they could even be written down.
    """

    core: Core
    request: Request
    surface: Surface | None
    unique: str
    invocation_id: InvocationId
    parent: "Call | None" = None
    fault: str | None = None
    tool_id: ToolId = _UNRESOLVED
    status: InvocationStatus | None = None
    events: int = 0
    phase: Phase = Phase.RESOLVE_TOOL
    tool: Tool | None = None
    drive: Drive | None = None
    turn: Turn | None = None
    deadline: Deadline | None = None
    abort_reason: AbortReason | None = None
    wants_to_stop: bool = False
    interrupted: BaseException | None = None
    result: ToolResult | None = None
    scrubber: Scrubber | None = None
    started_ns: int = 0
    progress: int = 0
    mutations: int = 0
    decisions: int = 0
    hook_runs: int = 0
    hints: tuple[HookHint, ...] = ()
    context: tuple[JsonObject, ...] = ()
    call_input: JsonObject = {}  # noqa: RUF012 -- each call gets one of its own

    @property
    def result_id(self) -> ResultId:
        """The id of the one result this call will have."""
        return ResultId("res_" + self.unique)

    def note(self, step: Step, data: FactData = None) -> int:
        """Note a step of this call and give the moment."""
        return self.core.journal.note(self, step, data)

    def own_turn(self) -> Turn | None:
        """Give the turn that this call holds to itself, so that others can be made within it."""
        if self.turn is not None:
            self.turn = self.core.gate.own(self.turn)
        return self.turn

    def decided(self, verdict: Verdict, judged: bytes) -> Decided:
        """Make the evidence of the next decision about this call."""
        self.decisions += 1
        decision_id = DecisionId(f"dec_{self.unique}-{self.decisions}")
        return Decided(verdict, judged, decision_id, self.request.redactor)

    @property
    def cancel(self) -> "Call":
        """The signal to stop, which is this call."""
        return self

    @property
    def is_requested(self) -> bool:
        """Tell whether someone asked this call to stop."""
        return self.wants_to_stop or self.abort_reason is not None

    @property
    def reason(self) -> AbortReason | None:
        """Tell why it should stop."""
        return self.abort_reason

    @property
    def credentials(self) -> Mapping[str, str]:
        """What was leased for this one call."""
        return _NO_CREDENTIALS

    @property
    def sandbox_profile(self) -> str | None:
        """The confinement that the tool declared."""
        return self.tool.entry.tool.execution_profile.sandbox_profile if self.tool else None

    @property
    def timeout_s(self) -> float | None:
        """How long the tool may run: what it declared, or the runtime's limit for tools that declare nothing."""
        declared = self.tool.timeout_s if self.tool is not None else None
        return declared if declared is not None else self.core.default_timeout_s

    @property
    def deadline_ns(self) -> int | None:
        """When the call will be stopped."""
        seconds = self.timeout_s
        return None if seconds is None or not self.started_ns else self.started_ns + int(seconds * 1e9)

    def arm_deadline(self) -> None:
        """Set the alarm, once the tool waits for something: before that nothing could stop it."""
        seconds = self.timeout_s
        if seconds is not None:
            self.deadline = self.core.deadlines.arm(self.core.loop.time() + seconds, self.time_out)

    def time_out(self) -> None:
        """Stop the tool, because its time is over."""
        if self.abort_reason is None:
            self.abort_reason = AbortReason.TIMEOUT
        if self.drive is not None:
            self.drive.stop()

    def learn_secrets(self, value: Json) -> None:
        """Remember the sensitive values of an input, so that nothing that leaves the call repeats them."""
        if self.tool is not None and self.tool.redactor is not None:
            found = compile_scrubber(self.tool.redactor.find(value))
            if found is not None:
                self.scrubber = found.and_also(self.scrubber)

    def report(
        self,
        message: str | None = None,
        *,
        percent: float | None = None,
        step: str | None = None,
        partial: Json = None,
        facts: Mapping[str, int | str] | None = None,
    ) -> None:
        """Tell how far the work is; safe from any thread."""
        update = (message, percent, step, partial, facts)
        if threading.get_ident() == self.core.thread_id:
            self._report(*update)
        else:
            self.core.loop.call_soon_threadsafe(self._report, *update)

    def add_native_ids(self, source: str, ids: JsonObject) -> None:
        """Keep native ids of this run."""
        self.note(steps.NATIVE_IDS, {"source": source, **ids})

    def _report(
        self,
        message: str | None,
        percent: float | None,
        step: str | None,
        partial: Json,
        facts: Mapping[str, int | str] | None,
    ) -> None:
        if self.status is None or self.status.is_terminal or self.status is InvocationStatus.YIELDED:
            return
        self.progress += 1
        scrub = self.scrubber
        message, step = _text(message), _text(step)
        is_partial = partial is not None
        self.note(
            steps.PARTIAL if is_partial and self.status in _RUNNING else steps.PROGRESSED,
            Progressed(
                self.progress,
                ProgressStatus.PARTIAL_RESULT if is_partial else ProgressStatus.RUNNING,
                scrub.text(message) if scrub and message else message,
                None if percent is None else min(max(percent, 0.0), 100.0),
                scrub.text(step) if scrub and step else step,
                (self.core.now_ns() - self.started_ns) // 1_000_000 if self.started_ns else None,
                cast("JsonObject", dict(facts)) if facts else None,
            ),
        )


def _text(value: object) -> str | None:
    """Take what a tool calls a message: as text that can be written down."""
    return None if value is None else str(value).encode(errors="replace").decode()


_RUNNING = (InvocationStatus.RUNNING, InvocationStatus.PARTIAL_RESULT)

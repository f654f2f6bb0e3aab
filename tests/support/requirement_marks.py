"""A pytest plugin that links tests to requirements by mark, rejects unknown ids, and writes the conformance report.

Only pytest loads this module. With pytest-xdist, each worker sends the marks it collected to the controller, which
receives every outcome and writes the report.
"""

from collections import defaultdict
from collections.abc import Generator
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import msgspec
import pytest

from agenttool.conformance.coverage import Coverage, Proof, ProofOutcome, encode_document, measure_coverage, report_of
from agenttool.conformance.ledger import Requirement, load_areas

MARKER = "requirement"
WORKER_KEY = "agenttool_requirement_marks"
PHASES = {"setup", "call", "teardown"}


@cache
def load_requirements() -> tuple[Requirement, ...]:
    """Return all requirements of both standards, in ledger order."""
    return tuple(requirement for area in load_areas() for requirement in area.requirements)


@cache
def find_requirement(requirement_id: str) -> Requirement | None:
    """Return the requirement with exactly this id."""
    return next((each for each in load_requirements() if each.id == requirement_id), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that asks for a report."""
    group = parser.getgroup("conformance")
    group.addoption("--conformance-report", metavar="PATH", help="write which requirements are proved, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Start collecting; delete an earlier report at once, so that a crashed run leaves none."""
    config.addinivalue_line("markers", f"{MARKER}(*ids): the numbered requirements this test proves")
    path: str | None = config.getoption("--conformance-report")
    report = config.invocation_params.dir / path if path and not is_worker(config) else None
    if report:
        clear(report)
    config.pluginmanager.register(MarkCollector(config, report), "agenttool-conformance")


def clear(report: Path) -> None:
    """Make sure that the report can be written before any test runs."""
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
    except OSError as fault:
        message = f"--conformance-report must be a writable file, got {str(report)!r} ({fault.strerror}); name another"
        raise pytest.UsageError(message) from fault


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


class MarkCollector:
    """The marks and outcomes of one run: which tests name which requirements, and how each ended."""

    def __init__(self, config: pytest.Config, report: Path | None) -> None:
        self.config = config
        self.report = report
        self.marked: list[tuple[pytest.Item, list[str]]] = []
        self.marks_of_workers: dict[str, list[str]] = {}
        self.steps: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Turn the collection of a file into an error if a mark in it is wrong.

        A collection error reads the same with and without workers.
        """
        report = yield
        items = [node for node in report.result or () if isinstance(node, pytest.Item)]
        for item in items:
            if ids := [str(name) for mark in item.iter_markers(MARKER) for name in mark.args]:
                self.marked.append((item, ids))
        if faults := [fault for item in items for fault in faults_of_marks(item)]:
            report.outcome = "failed"
            report.longrepr = "\n".join(faults)
            report.result = []
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of one step of a test; the controller receives those of all workers."""
        outcome = "skipped" if hasattr(report, "wasxfail") and report.passed else report.outcome
        self.steps[report.nodeid].add((report.when or "", outcome))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Receive the marks that a worker collected; a crashed worker sends none, its successor does."""
        output: object = getattr(node, "workeroutput", {})
        marks = msgspec.convert(output, dict[str, object]).get(WORKER_KEY, {})
        self.marks_of_workers |= msgspec.convert(marks, dict[str, list[str]])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Send the marks to the controller; the controller writes the report."""
        if is_worker(self.config):
            output: dict[str, object] = getattr(self.config, "workeroutput")  # noqa: B009 -- pytest-xdist adds it, no type knows
            output[WORKER_KEY] = self.marks
        elif self.report:
            self.report.write_text(encode_document(report_of(self.coverage)), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print where the report is."""
        if self.report:
            terminalreporter.write_line(f"conformance report: {self.report}")

    @property
    def marks(self) -> dict[str, list[str]]:
        """Node id to requirement ids. Read late, because plugins may rename items after collection."""
        return self.marks_of_workers | {item.nodeid: ids for item, ids in self.marked}

    @property
    def coverage(self) -> Coverage:
        """What the run proves. A marked test that was left out of the run is still a claim, and not a proved one."""
        evidence: defaultdict[str, set[Proof]] = defaultdict(set)
        for test, ids in self.marks.items():
            for requirement_id in ids:
                evidence[requirement_id].add(Proof(test, outcome_of_steps(self.steps[test])))
        return measure_coverage(load_areas(), evidence)


def outcome_of_steps(steps: set[tuple[str, str]]) -> ProofOutcome:
    """Return the worst outcome of setup, call and teardown; without all three the test was not run."""
    outcomes = {outcome for _, outcome in steps}
    if "failed" in outcomes:
        return ProofOutcome.FAILED
    if "skipped" in outcomes:
        return ProofOutcome.SKIPPED
    return ProofOutcome.PASSED if {when for when, _ in steps} >= PHASES else ProofOutcome.NOT_RUN


def faults_of_marks(item: pytest.Item) -> list[str]:
    """Return a message for each wrong mark of one test."""
    faults: list[str] = []
    for mark in item.iter_markers(MARKER):
        if not mark.args or mark.kwargs:
            faults.append(f"{item.nodeid}: a requirement mark must name ids and nothing else, got {mark!r}")
        faults += [unknown_id(item, name) for name in mark.args if find_requirement(str(name)) is None]
    return faults


def unknown_id(item: pytest.Item, name: object) -> str:
    """Return a message with the test, the id, and the nearest known id."""
    nearest = get_close_matches(str(name), [requirement.id for requirement in load_requirements()], n=1)
    advice = f"did you mean {nearest[0]!r}?" if nearest else "`agenttool conformance --missing` lists the known ids"
    return f"{item.nodeid}: unknown requirement {name!r}; {advice}"

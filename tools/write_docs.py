"""Write generated pages and parts of pages anew: references, what tours print, and figures of the last conformance run.

`--check` writes nothing and fails if a part is out of date.
"""

import contextlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from typer.testing import CliRunner

from agenttool.cli.main import app
from agenttool.config import SETTINGS_FILE
from agenttool.conformance.coverage import Coverage, count_covered, decode_report
from agenttool.conformance.ledger import Obligation, Standard
from api_reference import API_PAGES, api_page
from cli_reference import reference_page
from http_reference import http_page
from record_reference import errors_page, events_page
from settings_reference import settings_page

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *(page for part in ("", "how-to", "explanation") for page in sorted((ROOT / "docs" / part).glob("*.md"))),
]
REFERENCE = ROOT / "docs" / "reference"
GENERATED = {
    REFERENCE / "cli.md": reference_page,
    REFERENCE / "errors.md": errors_page,
    REFERENCE / "events.md": events_page,
    REFERENCE / "http.md": http_page,
    REFERENCE / "settings.md": settings_page,
    **{REFERENCE / "api" / f"{name}.md": partial(api_page, name) for name in API_PAGES},
}
REPORT = ROOT / "build" / "conformance.json"

FIXED = ("day.py",)
"""Programs whose journal is shown; the clock and the ids are fixed, so that its ids and times stay the same."""

_FILE = re.compile(r"<!-- tour:file (?P<name>\S+) -->\n```[a-z]+\n(?P<text>.*?)```", re.DOTALL)
_RUN = re.compile(r"(<!-- tour:run (?P<program>agenttool|python) (?P<words>[^>]+) -->\n```\n).*?(```)", re.DOTALL)
_PYTHON = re.compile(r"<!-- tour:python -->\n```python\n(?P<code>.*?)```", re.DOTALL)
_OUTPUT = re.compile(r"(<!-- tour:output -->\n```\n).*?(```)", re.DOTALL)
_FIGURES = re.compile(r"(<!-- conformance -->\n)(?:\n\|.*?\n(?=\n))?", re.DOTALL)


def with_tour(page: str) -> str:
    """Run every command and program of the tour, and put what they print below them."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for file in _FILE.finditer(page):
            Path(file["name"]).write_text(file["text"], encoding="utf-8")
        if Path(SETTINGS_FILE).exists():
            _printed_by_command("agenttool", ["trust", "--yes"])
        page = _RUN.sub(lambda run: run[1] + _printed_by_command(run["program"], run["words"].split()) + run[4], page)
        programs = iter([_printed_by_program(program["code"]) for program in _PYTHON.finditer(page)])
    return _OUTPUT.sub(lambda output: output[1] + next(programs) + output[2], page)


def with_figures(page: str, report: bytes) -> str:
    """Put the figures of a conformance report where they belong."""
    return _FIGURES.sub(lambda place: f"{place[1]}\n{_figures_table(decode_report(report))}", page)


def _figures_table(coverage: Coverage) -> str:
    """Return the figures of both standards as a Markdown table, one line each."""
    lines = ["| Standard | MUST | SHOULD | MAY | Proved |", "| --- | ---: | ---: | ---: | ---: |"]
    for standard in Standard:
        findings = coverage.findings_of(standard)
        counts = [count_covered(findings, obligation) for obligation in Obligation]
        figures = [f"{count.covered} of {count.total}" for count in counts]
        lines.append(f"| {' | '.join([standard.full_name, *figures, f'{count_covered(findings).percent} %'])} |")
    return "\n".join(lines) + "\n"


def _printed_by_command(program: str, words: list[str]) -> str:
    own = {"COLUMNS": "100", "TERM": "dumb", "XDG_CONFIG_HOME": str(Path.cwd() / ".config")}
    if program == "python":
        runner = [str(Path(__file__).with_name("fixed_world.py"))] if words[0] in FIXED else []
        variables = ["env", *(f"{name}={value}" for name, value in own.items())]
        started = [*variables, sys.executable, *runner, *words]
        return subprocess.run(started, capture_output=True, text=True, check=True).stdout
    return CliRunner().invoke(app, words, env=own).stdout


def _printed_by_program(code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102 -- the README is ours
    return printed.getvalue()


def written_pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with its text as it is written now."""
    for page in PAGES:
        written = with_tour(page.read_text(encoding="utf-8"))
        yield page, with_figures(written, REPORT.read_bytes()) if REPORT.exists() else written
    for page, write in GENERATED.items():
        yield page, write()


def main() -> int:
    """Write the pages, or say which are out of date."""
    is_stale = False
    for page, written in written_pages():
        name, text = page.relative_to(ROOT), page.read_text(encoding="utf-8") if page.exists() else ""
        is_stale |= written != text
        if "--check" in sys.argv:
            print(f"{name} is up to date" if written == text else f"{name} is out of date; run `make docs`")
        else:
            page.parent.mkdir(exist_ok=True)
            page.write_text(written, encoding="utf-8")
            print(name)
    if not REPORT.exists():
        print("figures kept: no run at hand, make one with `make conformance`")
    return int(is_stale and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())

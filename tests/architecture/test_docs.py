"""The map is true: decisions are listed, links lead somewhere, nothing speaks of the workshop."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from record_reference import event_data

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_every_decision_is_listed_and_every_listed_one_exists():
    index = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", index)) == {
        path.name for path in (ROOT / "docs/adr").glob("[0-9]*.md")
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_somewhere(page):
    targets = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


# What a decision says, each part with the headings that may introduce it.
PARTS = ("Question", "Choice", "Turned down|Rejected|Alternatives", "What would change our mind|Revisit|Consequences")


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "adr" and page.name != "README.md"],
                         ids=lambda page: page.stem)  # fmt: skip
def test_a_decision_has_its_four_parts_on_one_page(page):
    text = page.read_text(encoding="utf-8")
    assert all(re.search(rf"^\*\*({part})\b", text, re.MULTILINE) for part in PARTS)
    assert len(text.splitlines()) < 60


def test_no_file_names_a_path_of_the_machine_it_was_written_on():
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pattern = re.compile(rb"(^|[^A-Za-z0-9_.])/(work|root|farm)/[A-Za-z.]")
    found = [name for name in files.split("\0") if name and pattern.search((ROOT / name).read_bytes())]
    assert found == []


@pytest.mark.slow
def test_pages_show_what_their_commands_and_programs_print():
    done = subprocess.run(
        [sys.executable, "tools/write_docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_lists_every_member_of_an_event_in_the_journal():
    listed = event_data()
    corpus = (ROOT / "tests/data/export_corpus.jsonl").read_text(encoding="utf-8").splitlines()
    events = [record for record in map(json.loads, corpus) if record.get("record_type") == "tool_event"]
    found = {(each["event_type"], name) for each in events for name in each["data"].keys() - {"sequence", "status"}}
    assert [(kind, name) for kind, name in sorted(found) if name not in listed[kind]] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the documentation site; a broken link or a page that no menu lists is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_another_host(site):
    loads = re.compile(r'<(?:script|img|iframe)\b[^>]*\bsrc="?https?:|<link\b[^>]*\bhref="?https?:')
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_the_site_shows_the_commands_and_file_names_of_an_example(site):
    journal = (site / "how-to/journal.html").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]+>", "", journal)
    assert "$ agenttool show 0002" in text
    assert "day.py" in text

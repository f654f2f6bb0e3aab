"""The packaged requirements: complete, well-formed, and word for word those of the project's ledgers."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

from agenttool.conformance.ledger import (
    Mark,
    Obligation,
    Requirement,
    Standard,
    find_area,
    find_requirement,
    load_areas,
    load_requirements,
)

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGED = Path(str(files("agenttool.conformance") / "requirements"))


def requirements_of(standard: Standard) -> list[Requirement]:
    return [requirement for requirement in load_requirements() if requirement.standard is standard]


def tables_below(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.tsv")}


def agent_tool_line(requirement: Requirement) -> str:
    facts = (requirement.id, requirement.area, requirement.level, requirement.source, requirement.sentence)
    return "\t".join((*facts, requirement.check or ""))


def rap_line(requirement: Requirement) -> str:
    level = f"{requirement.level} ~" if Mark.READING in requirement.marks else requirement.level
    sentence = f"{{derived}} {requirement.sentence}" if Mark.DERIVED in requirement.marks else requirement.sentence
    sentence = f"{sentence} [seed]" if Mark.SEED in requirement.marks else sentence
    source = [requirement.source] if requirement.source else []
    return "- " + " | ".join([requirement.id, level, str(requirement.who), sentence, *source])


def test_every_row_of_both_ledgers_is_in_the_package():
    assert Counter(requirement.standard for requirement in load_requirements()) == {
        Standard.AGENT_TOOL: 371,
        Standard.RAP: 243,
    }


def test_a_prohibition_is_counted_with_the_demand_of_the_same_word():
    counts = Counter((requirement.standard, requirement.obligation) for requirement in load_requirements())
    assert counts == {
        (Standard.AGENT_TOOL, Obligation.MUST): 51,
        (Standard.AGENT_TOOL, Obligation.SHOULD): 303,
        (Standard.AGENT_TOOL, Obligation.MAY): 17,
        (Standard.RAP, Obligation.MUST): 139,
        (Standard.RAP, Obligation.SHOULD): 83,
        (Standard.RAP, Obligation.MAY): 21,
    }


def test_ids_and_area_names_are_unique_over_both_standards():
    assert max(Counter(requirement.id for requirement in load_requirements()).values()) == 1
    assert max(Counter(area.name for area in load_areas()).values()) == 1


def test_every_requirement_says_something_and_sits_in_its_own_area():
    for area in load_areas():
        assert area.requirements
        for requirement in area.requirements:
            assert (requirement.standard, requirement.area) == (area.standard, area.name)
            assert requirement.sentence == requirement.sentence.strip() != ""
            assert (requirement.check is None) == (requirement.standard is Standard.RAP)
            assert (requirement.who is None) == (requirement.standard is Standard.AGENT_TOOL)
            assert (requirement.source == "") == (Mark.DERIVED in requirement.marks)


def test_no_packaged_table_is_left_unread_or_too_long_to_open():
    folders = {Standard.AGENT_TOOL: "agent_tool", Standard.RAP: "rap"}
    read = {f"{folders[area.standard]}/{area.name.lower().replace('-', '_')}.tsv" for area in load_areas()}
    tables = tables_below(PACKAGED)
    assert tables.keys() == read | {f"{folder}/areas.tsv" for folder in folders.values()}
    assert max(len(text.splitlines()) for text in tables.values()) < 250


def test_a_requirement_is_found_by_its_exact_id_only():
    found = find_requirement("RAP-030")
    assert found is not None
    assert (found.level, found.marks, found.who) == ("MUST NOT", (Mark.READING, Mark.SEED), "runtime")
    assert find_requirement("rap-030") is None


def test_an_area_is_found_by_name_in_any_case():
    area = find_area("interop-mcp")
    assert area is not None
    assert [requirement.id for requirement in area.requirements] == [f"AT-INTEROP-MCP-0{n}" for n in range(1, 8)]
    assert find_area("nowhere") is None


def test_agent_tool_requirements_are_word_for_word_those_of_the_ledger(shared: Path):
    _, *lines = (shared / "specs" / "agent-tool.tsv").read_text(encoding="utf-8").splitlines()
    assert [agent_tool_line(requirement) for requirement in requirements_of(Standard.AGENT_TOOL)] == lines


def test_rap_rules_are_word_for_word_those_of_the_ledger(shared: Path):
    lines = (shared / "specs" / "rap.md").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line.startswith("- RAP-")]
    headings = [line for line in lines if line.startswith("### 3.")]
    assert [rap_line(requirement) for requirement in requirements_of(Standard.RAP)] == rules
    assert [f"### {area.title}" for area in load_areas() if area.standard is Standard.RAP] == [
        heading.replace("`", "") for heading in headings
    ]


def test_the_tool_writes_the_tables_that_are_packaged(shared: Path, tmp_path: Path):
    tool = REPOSITORY / "tools" / "write_requirements.py"
    subprocess.run([sys.executable, str(tool), str(shared / "specs"), str(tmp_path)], check=True, capture_output=True)
    assert tables_below(tmp_path) == tables_below(PACKAGED)


def test_without_the_ledgers_the_comparison_is_skipped_and_the_run_says_so(tmp_path: Path):
    folder = tmp_path / "repository" / "tests"
    folder.mkdir(parents=True)
    shutil.copy(REPOSITORY / "tests" / "conftest.py", folder)
    (folder / "test_comparison.py").write_text("def test_comparison(shared): pass\n")
    (tmp_path / "repository" / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(folder)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=folder.parent, env=environment, check=True, capture_output=True, text=True)
    assert run.stdout.count("was not compared with the project's ledgers") == 2
    assert "1 skipped" in run.stdout

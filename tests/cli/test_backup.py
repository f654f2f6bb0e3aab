"""`agenttool backup`: a copy that is whole, or none."""

import json

import pytest


@pytest.mark.usefixtures("journal")
def test_a_copy_holds_all_that_the_journal_holds(run, tmp_path):
    told = json.loads(run("backup", "copy.db", "--json").stdout)
    assert told["bytes"] == (tmp_path / "copy.db").stat().st_size
    assert run("log", "--store", "copy.db").stdout == run("log").stdout
    head = told["head"]
    assert run("verify", "--store", "copy.db", "--head", f"{head['position']}:{head['hash']}").exit_code == 0
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("journal")
def test_a_file_that_is_there_is_not_overwritten(run, tmp_path):
    (tmp_path / "copy.db").write_text("mine")
    outcome = run("backup", "copy.db")
    assert outcome.exit_code == 2
    assert "copy.db" in outcome.stderr
    assert (tmp_path / "copy.db").read_text() == "mine"

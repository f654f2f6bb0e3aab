"""`agenttool backup`: a copy that is whole, or none."""

import json
import shutil

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


@pytest.mark.parametrize("target", [".", "..", "/"])
@pytest.mark.usefixtures("journal")
def test_a_folder_is_no_place_for_a_copy(run, target):
    done = run("backup", target)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is there already; give the copy another name" in done.stderr


@pytest.mark.usefixtures("journal")
def test_stored_bytes_are_copied_before_the_journal_that_speaks_of_them(run, day, tmp_path):
    shutil.copytree(f"{day[0]}-payloads", tmp_path / "agenttool.db-payloads")
    told = json.loads(run("backup", "copy.db", "--json").stdout)
    assert told["payloads"] > 0
    assert "1 checked" in run("verify", "--store", "copy.db").stdout


@pytest.mark.usefixtures("journal")
def test_a_journal_whose_stored_bytes_cannot_be_copied_is_not_copied(run, day, tmp_path):
    shutil.copytree(f"{day[0]}-payloads", tmp_path / "agenttool.db-payloads")
    (tmp_path / "copy.db-payloads").write_text("a file")
    outcome = run("backup", "copy.db")
    assert outcome.exit_code == 2
    assert "copy.db-payloads" in outcome.stderr
    assert not (tmp_path / "copy.db").exists()

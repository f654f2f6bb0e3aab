"""The bar: seen by people who wait, and by nobody else."""

import pytest

from agenttool.cli import progress
from agenttool.cli.progress import ByteBar, CountBar


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "A_MOMENT", -1)


def drawn(capsys, total):
    with ByteBar(total) as bar:
        for _ in range(3):
            bar.advance(1000)
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("total", [3000, None])
def test_long_work_draws_a_bar_on_the_error_stream(capsys, total):
    assert "kB" in drawn(capsys, total)


def test_nothing_is_drawn_where_no_terminal_is(capsys, monkeypatch):
    monkeypatch.setattr(progress, "A_MOMENT", -1)
    assert drawn(capsys, 3000) == ""


def test_work_of_a_moment_draws_nothing(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert drawn(capsys, 3000) == ""


@pytest.mark.usefixtures("terminal")
def test_the_bar_makes_room_and_comes_back(capsys):
    with ByteBar(3000) as bar:
        bar.advance(1000)
        bar.hide()
        capsys.readouterr()
        bar.hide()
        assert capsys.readouterr().err == ""
        bar.advance(1000)
        assert "2.0/3.0 kB" in capsys.readouterr().err


@pytest.mark.usefixtures("terminal")
def test_things_that_are_counted_are_drawn_now_and_then(capsys):
    with CountBar(2 * CountBar.EVERY) as bar:
        for _ in range(CountBar.EVERY - 1):
            bar.advance()
        assert capsys.readouterr().err == ""
        bar.advance()
        assert f"{CountBar.EVERY}/{2 * CountBar.EVERY}" in capsys.readouterr().err

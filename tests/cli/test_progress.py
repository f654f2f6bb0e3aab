"""Progress bars: drawn for long work on a terminal only."""

import pytest

from agenttool.cli import progress
from agenttool.cli.progress import WorkBar


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "DELAY_S", -1)
    monkeypatch.setattr(progress, "UPDATE_S", 0)


def drawn(capsys, total):
    with WorkBar(total, in_bytes=True) as bar:
        for _ in range(3):
            bar.advance(1000)
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("total", [3000, None])
def test_long_work_draws_a_bar_on_the_error_stream(capsys, total):
    assert "kB" in drawn(capsys, total)


def test_nothing_is_drawn_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "DELAY_S", -1)
    assert drawn(capsys, 3000) == ""


def test_short_work_draws_nothing(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert drawn(capsys, 3000) == ""


@pytest.mark.usefixtures("terminal")
def test_a_hidden_bar_is_shown_again(capsys):
    with WorkBar(3000, in_bytes=True) as bar:
        bar.advance(1000)
        bar.hide()
        capsys.readouterr()
        bar.hide()
        assert capsys.readouterr().err == ""
        bar.advance(1000)
        assert "2.0/3.0 kB" in capsys.readouterr().err


@pytest.mark.usefixtures("terminal")
def test_items_between_two_updates_are_counted(capsys, monkeypatch):
    with WorkBar(4) as bar:
        bar.advance()
        assert "1/4" in capsys.readouterr().err
        monkeypatch.setattr(bar, "_update_at", float("inf"))
        bar.advance(2)
        monkeypatch.setattr(bar, "_update_at", 0)
        bar.advance()
        bar.hide()
        assert "4/4" in capsys.readouterr().err

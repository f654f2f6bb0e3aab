"""A folder becomes a model, or a clear word why not."""

import subprocess
import sys

import pytest

from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError


def near(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("kind", ["static_model", "network"])
def test_texts_about_the_same_are_near_and_others_far(kind, request):
    encode = open_model(request.getfixturevalue(kind))
    rain, weather, song = encode(["an umbrella", "Weather forecast", "play a song"])
    assert near(rain, weather) > 0.9
    assert near(rain, song) < 0.3
    assert near(rain, rain) == pytest.approx(1.0)


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no folder .*nothing is downloaded"):
        open_model(tmp_path / "nowhere")


def test_a_folder_without_a_model_says_what_is_needed(folder):
    with pytest.raises(ConfigError, match=r"needs tokenizer.json, and model.onnx or a static model.safetensors"):
        open_model(folder)


def test_a_damaged_model_is_refused_when_it_is_opened(static_model):
    (static_model / "model.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        open_model(static_model)


def test_without_the_extra_the_way_to_install_it_is_told(static_model):
    script = """
import sys
from pathlib import Path
sys.modules["safetensors"] = sys.modules["safetensors.numpy"] = None
from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError
try:
    open_model(Path(sys.argv[1]))
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script, str(static_model)], capture_output=True, text=True, check=True)
    assert "safetensors" in done.stdout
    assert "pip install 'agenttool[semantic]'" in done.stdout

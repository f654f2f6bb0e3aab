"""A folder becomes a model, or a clear word why not."""

import subprocess
import sys

import numpy as np
import pytest

from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError

SENTENCES = [
    "send an email to a customer",
    "mail a message to a client",
    "delete a file from the disk",
    "erase documents in a folder",
]


@pytest.mark.parametrize("kind", ["static_model", "network"])
def test_texts_about_the_same_are_near_and_others_far(kind, request):
    rain, weather, song = open_model(request.getfixturevalue(kind)).encode(
        ["an brolly", "Weather forecast", "play a song"]
    )
    assert rain @ weather > 0.9
    assert rain @ song < 0.3
    assert rain @ rain == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["real_model", "real_network"])
def test_a_real_model_knows_what_is_alike_without_a_word_in_common(kind, request):
    likeness = (rows := open_model(request.getfixturevalue(kind)).encode(SENTENCES)) @ rows.T
    assert likeness[0].argsort()[-2] == 1
    assert likeness[2].argsort()[-2] == 3


def test_the_same_weights_as_table_and_as_network_mean_the_same(real_model, real_network):
    texts = [*SENTENCES, "a", "Ünïcödé 文件 🎉", "word " * 100]
    table, network = open_model(real_model), open_model(real_network)
    np.testing.assert_allclose(table.encode(texts), network.encode(texts), atol=1e-4)
    assert table.name != network.name
    assert table.dimensions == network.dimensions == 256


def test_what_has_no_words_means_nothing(static_model):
    assert not open_model(static_model).encode(["", "xyzzy"]).any()


@pytest.mark.parametrize("kind", ["static_model", "network"])
def test_a_damaged_model_is_refused_when_it_is_opened(kind, request):
    folder = request.getfixturevalue(kind)
    for file in (folder / "model.safetensors", folder / "onnx" / "model.onnx"):
        if file.exists():
            file.write_bytes(b"rubbish")
    with pytest.raises(ConfigError, match=r"the model in .* cannot be used: .*; use another"):
        open_model(folder)


def test_a_model_that_gives_no_numbers_is_refused(folder, make, words):
    make.table(folder / "model.safetensors", embeddings=words * np.float32("nan"))
    with pytest.raises(ConfigError, match="cannot be used: it gives what is no number; use another"):
        open_model(folder)


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

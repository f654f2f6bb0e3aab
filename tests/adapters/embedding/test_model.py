"""A model folder is opened, or rejected with the remedy."""

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
def test_texts_with_similar_meaning_have_similar_vectors(kind, request):
    rain, weather, song = open_model(request.getfixturevalue(kind)).encode(
        ["an brolly", "Weather forecast", "play a song"]
    )
    assert rain @ weather > 0.9
    assert rain @ song < 0.3
    assert rain @ rain == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["real_model", "real_network"])
def test_a_real_model_finds_similar_sentences_without_a_common_word(kind, request):
    similarity = (rows := open_model(request.getfixturevalue(kind)).encode(SENTENCES)) @ rows.T
    assert similarity[0].argsort()[-2] == 1
    assert similarity[2].argsort()[-2] == 3


def test_equal_weights_as_table_and_as_network_give_equal_vectors(real_model, real_network):
    texts = [*SENTENCES, "a", "Ünïcödé 文件 🎉", "word " * 100]
    table, network = open_model(real_model), open_model(real_network)
    np.testing.assert_allclose(table.encode(texts), network.encode(texts), atol=1e-4)
    assert table.digest != network.digest
    assert table.dimensions == network.dimensions == 256


def test_a_text_without_known_words_has_a_zero_vector(static_model):
    assert not open_model(static_model).encode(["", "xyzzy"]).any()


@pytest.mark.parametrize("kind", ["static_model", "network"])
def test_a_damaged_model_is_rejected_when_it_is_opened(kind, request):
    folder = request.getfixturevalue(kind)
    for file in (folder / "model.safetensors", folder / "onnx" / "model.onnx"):
        if file.exists():
            file.write_bytes(b"rubbish")
    with pytest.raises(ConfigError, match=r"the model in .* cannot be used: .*; use another"):
        open_model(folder)


def test_a_model_with_nan_vectors_is_rejected(folder, make, words):
    make.table(folder / "model.safetensors", embeddings=words * np.float32("nan"))
    with pytest.raises(ConfigError, match="cannot be used: its vectors contain NaN or infinity; use another"):
        open_model(folder)


@pytest.mark.parametrize(
    ("model", "package", "extra"),
    [("static_model", "safetensors", "semantic"), ("real_network", "onnxruntime", "sentence-models")],
)
def test_without_the_extra_the_error_names_the_install_command(model, package, extra, request):
    script = """
import sys
from pathlib import Path
sys.modules[sys.argv[2]] = sys.modules[f"{sys.argv[2]}.numpy"] = None
from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError
try:
    open_model(Path(sys.argv[1]))
except ConfigError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-s", "-c", script, str(request.getfixturevalue(model)), package],
        capture_output=True,
        text=True,
        check=True,
    )
    assert package in done.stdout
    assert f"pip install 'agenttool[{extra}]'" in done.stdout

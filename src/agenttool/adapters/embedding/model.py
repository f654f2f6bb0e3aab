"""Open an embedding model in a local folder and try it."""
# pyright: basic
# The libraries of the optional extra may be missing where types are checked.

from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agenttool.adapters.embedding.model_files import ModelFiles, find_model_files
from agenttool.errors import ConfigError

if TYPE_CHECKING:
    from agenttool.adapters.embedding.encoders import Encode


class EmbeddingModel(NamedTuple):
    """A loaded model that has encoded a test sentence.

    Attributes:
        digest: identifies the weights, the tokenizer and the settings, so that cached vectors are never mixed up.
        dimensions: the length of its vectors.
        encode: encodes texts with the prompt for texts.
        encode_query: encodes queries with the prompt for queries.
    """

    digest: str
    dimensions: int
    encode: "Encode"
    encode_query: "Encode"

    def content_key(self, text: str) -> bytes:
        """Return the key under which the vector of a text is cached."""
        return sha256(f"{self.digest}\n{text}".encode(errors="surrogatepass")).digest()


def open_model(folder: Path) -> EmbeddingModel:
    """Load the model in a folder and encode a test sentence with it.

    Raises:
        ConfigError: the folder or the model is missing or unusable, or the optional extra is not installed.
    """
    return load_model(find_model_files(folder))


def load_model(files: ModelFiles) -> EmbeddingModel:
    """Load a model from its files and encode a test sentence with it.

    Raises:
        ConfigError: the model is unusable, or the optional extra is not installed.
    """
    settings = files.settings
    try:
        from agenttool.adapters.embedding.encoders import open_encoder  # noqa: PLC0415 -- an optional extra

        encode = open_encoder(files)
        sample = encode([settings.text_prompt + "read a file", "a"])
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        extra = "sentence-models" if error.name == "onnxruntime" else "semantic"
        raise ConfigError(
            f"search by meaning needs {error.name!r}, which is not installed; install it with:"
            f" pip install 'agenttool[{extra}]'"
        ) from error
    except Exception as error:  # the libraries raise exceptions of any type
        raise ConfigError(f"the model in {str(files.weights.parent)!r} cannot be used: {error}; use another") from error
    return EmbeddingModel(
        digest=_digest(files),
        dimensions=sample.shape[1],
        encode=_with_prompt(encode, settings.text_prompt),
        encode_query=_with_prompt(encode, settings.query_prompt),
    )


def _with_prompt(encode: "Encode", prompt: str) -> "Encode":
    return (lambda texts: encode([prompt + text for text in texts])) if prompt else encode


def _digest(files: ModelFiles) -> str:
    digest = sha256(repr(files.settings).encode())
    for path in (files.weights, files.tokenizer):
        with path.open("rb") as opened:
            digest.update(file_digest(opened, "sha256").digest())
    return digest.hexdigest()

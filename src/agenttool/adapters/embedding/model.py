"""A folder with a model becomes a function from texts to vectors of length one."""
# pyright: basic
# The libraries of an optional extra may be missing where types are checked.

from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING

from agenttool.adapters.embedding.folder import Contents, look_into
from agenttool.errors import ConfigError

if TYPE_CHECKING:
    from agenttool.adapters.embedding.encoding import Encode

EXTRA = "install it with: pip install 'agenttool[semantic]'"


@dataclass(frozen=True, slots=True)
class Model:
    """A model that works: it was tried when it was opened.

    Attributes:
        name: tells this model from every other, by content, so that vectors of one are never taken for another's.
        dimensions: how long its vectors are.
        encode: reads texts.
        ask: reads queries, as the model wants them to be put.
    """

    name: str
    dimensions: int
    encode: "Encode"
    ask: "Encode"


def open_model(folder: Path) -> Model:
    """Load the model of a folder, and try it.

    Raises:
        ConfigError: there is no such folder or no model in it, or the optional extra is not installed.
    """
    contents = look_into(folder)
    try:
        encode = _encoder(contents)
        tried = encode([contents.wishes.text_prompt + "read a file", "a"])
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError(f"searching by meaning needs {error.name!r}, which is not installed; {EXTRA}") from error
    except Exception as error:  # the libraries raise whatever they like
        raise ConfigError(f"the model in {str(folder)!r} cannot be used: {error}; use another") from error
    return Model(
        name=_digest(contents),
        dimensions=tried.shape[1],
        encode=_prompted(encode, contents.wishes.text_prompt),
        ask=_prompted(encode, contents.wishes.query_prompt),
    )


def _encoder(contents: Contents) -> "Encode":
    if contents.is_network:
        from agenttool.adapters.embedding.network import network as encoder  # noqa: PLC0415 -- an optional extra
    else:
        from agenttool.adapters.embedding.table import table as encoder  # noqa: PLC0415 -- an optional extra
    return encoder(contents)


def _prompted(encode: "Encode", prompt: str) -> "Encode":
    return (lambda texts: encode([prompt + text for text in texts])) if prompt else encode


def _digest(contents: Contents) -> str:
    """Digest the files and how they are used."""
    digest = sha256(repr(contents.wishes).encode())
    for file in (contents.weights, contents.tokenizer):
        with file.open("rb") as opened:
            digest.update(file_digest(opened, "sha256").digest())
    return digest.hexdigest()

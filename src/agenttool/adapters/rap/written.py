"""A RAP source as settings write it."""

from collections.abc import Callable

from agenttool.adapters.rap.credentials import Bearer, Credential
from agenttool.adapters.rap.settings import RapSource
from agenttool.adapters.rap.signed import Signed
from agenttool.errors import ConfigError
from agenttool.records import JsonObject

_KINDS: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "pin": (str,),
    "token_env": (str,),
    "secret_env": (str,),
    "allow": (list,),
    "presents_to": (list,),
    "within_s": (int, float),
    "attempts": (int,),
    "trusts_annotations": (bool,),
    "shares_user": (bool,),
    "takes_any_2xx": (bool,),
    "shows_http_urls": (bool,),
    "max_subscriptions": (int,),
    "max_prompts": (int,),
}

_SECRET: dict[str, Callable[[str], Credential]] = {"token_env": Bearer, "secret_env": Signed}
"""What may name the variable with a secret, and what is made of that."""


def read_source(name: str, members: JsonObject, variable: Callable[[str], str | None]) -> RapSource:
    """Read the table of a source; a secret comes from the environment, by the name of its variable.

    Raises:
        ConfigError: a member is not known, or not what it should be.
    """
    for member, value in members.items():
        if member not in _KINDS:
            raise ConfigError(f"a rap source has no {member!r}; use one of {', '.join(_KINDS)}")
        if type(value) not in _KINDS[member]:
            raise ConfigError(f"{member} must be of the type {_KINDS[member][0].__name__}, got {value!r}; correct it")
    if "url" not in members:
        raise ConfigError('a rap source says where it is; write url = "https://…"')
    given = {key: tuple(map(str, value)) if isinstance(value, list) else value for key, value in members.items()}
    for each in _SECRET:
        given.pop(each, None)
    return RapSource(name=name, credential=_credential(members, variable), **given)  # pyright: ignore[reportArgumentType] -- each was checked just now


def _credential(members: JsonObject, variable: Callable[[str], str | None]) -> Credential | None:
    named = [(member, str(members[member])) for member in _SECRET if member in members]
    if len(named) > 1:
        raise ConfigError("token_env shows a token, and secret_env signs instead; take one of them out")
    for member, name in named:
        secret = variable(name)
        if secret is None:
            raise ConfigError(f"{member} names {name!r}, which is not set; set it, or take it out")
        return _SECRET[member](secret)
    return None

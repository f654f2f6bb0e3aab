"""A RAP source as settings write it."""

from collections.abc import Callable

from agenttool.adapters.rap.credentials import Bearer
from agenttool.adapters.rap.settings import RapSource
from agenttool.errors import ConfigError
from agenttool.records import JsonObject

_KINDS: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "pin": (str,),
    "token_env": (str,),
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


def read_source(name: str, members: JsonObject, variable: Callable[[str], str | None]) -> RapSource:
    """Read the table of a source; a token comes from the environment, by the name of its variable.

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
    given.pop("token_env", None)
    return RapSource(name=name, credential=_credential(members, variable), **given)  # pyright: ignore[reportArgumentType] -- each was checked just now


def _credential(members: JsonObject, variable: Callable[[str], str | None]) -> Bearer | None:
    named = members.get("token_env")
    if not isinstance(named, str):
        return None
    token = variable(named)
    if token is None:
        raise ConfigError(f"token_env names {named!r}, which is not set; set it, or take it out")
    return Bearer(token)

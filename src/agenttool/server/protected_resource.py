"""The server as a protected resource of OAuth (RFC 9728): its metadata, which says where clients log in.

A server that accepts no JSON Web Tokens, or those of an issuer that is no URL, has no place to log in. It publishes no
metadata, and its challenges name only the scheme.
"""

from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from agenttool.config import JwtTable
from agenttool.ports.identity import AccessRole
from agenttool.records import JsonObject
from agenttool.server.problem import MissingRole, Problem

METADATA_PATH = "/.well-known/oauth-protected-resource"
_MCP = "/mcp"
_SCOPE_CLAIMS = ("scope", "scp")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationServer:
    """Where clients of a server get JSON Web Tokens.

    Attributes:
        issuer: its URL.
        grants_scopes: whether the roles of a token are the scopes that its client requested.
    """

    issuer: str
    grants_scopes: bool = False

    @classmethod
    def of(cls, setting: JwtTable) -> "AuthorizationServer | None":
        """Return the authorization server of the settings; None if the issuer is no URL, so clients cannot find it."""
        if not setting.issuer.startswith(("https://", "http://")):
            return None
        return cls(issuer=setting.issuer, grants_scopes=setting.roles_claim in _SCOPE_CLAIMS)


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """Describes a server to OAuth clients.

    Attributes:
        url: the URL at which clients reach the server.
        login: where they get tokens; None if there is no such place.
    """

    url: str
    login: AuthorizationServer | None

    def metadata(self, path: str) -> JsonObject | None:
        """Return the metadata at a path: of the server, of `/mcp` or of a profile; None if nothing is published there.

        The resource is the URL into which the client inserted the well-known path, as clients compare them.
        """
        resource = path.removeprefix(METADATA_PATH)
        if self.login is None or resource == path or resource != _resource_of(resource):
            return None
        found: JsonObject = {
            "resource": f"{self.url}{quote(resource)}",
            "authorization_servers": [self.login.issuer],
            "bearer_methods_supported": ["header"],
        }
        if self.login.grants_scopes:
            found["scopes_supported"] = [each.value for each in AccessRole]
        return found

    def challenge(self, error: Exception, path: str, *, has_token: bool) -> str | None:
        """Return the header WWW-Authenticate of a refused request; None if other credentials do not help."""
        login, members = self.login, {"error": "invalid_token"} if has_token else {}
        if isinstance(error, MissingRole) and login is not None and login.grants_scopes:
            members = {"error": "insufficient_scope", "scope": " ".join(sorted(error.roles))}
        elif not isinstance(error, Problem) or error.status is not HTTPStatus.UNAUTHORIZED:
            return None
        if login is None:
            return "Bearer"
        members["resource_metadata"] = f"{self.url}{METADATA_PATH}{quote(_resource_of(path))}"
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in members.items())


def _resource_of(path: str) -> str:
    """Return the path of the resource that a request is about: that of an MCP endpoint, otherwise the whole server."""
    return path if path == _MCP or path.startswith(f"{_MCP}/") else ""

"""The routes of the console: one page for every address of it, and its files under a digest of all of them.

The page names its files by the digest, so that a browser may store them for ever and never mixes two versions.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

PAGES = (
    "/",
    "/login",
    "/approvals",
    "/approvals/{id}",
    "/calls",
    "/calls/{id}",
    "/tools",
    "/tools/{id}",
    "/sources",
    "/policy",
    "/access",
)
"""The addresses of the console; each of them serves the same page, whose script reads the address."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""What the page may load and do: its own files and the API of its own origin, and no text ever becomes code."""

SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".toml": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_INDEX = "index.html"
_PLACE_OF_DIGEST = "DIGEST"
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class ConsoleFiles:
    """All files of the console in memory, and the digest of them all."""

    by_path: dict[str, bytes]
    digest: str

    @property
    def page(self) -> bytes:
        """The page, which names its files by the digest."""
        return self.by_path[_INDEX].replace(_PLACE_OF_DIGEST.encode(), self.digest.encode())


@cache
def console_files() -> ConsoleFiles:
    """Read the files of the console from the installed package."""
    found = dict(sorted(_read(files("agenttool.console") / "static", "")))
    digest = hashlib.sha256()
    for path, content in found.items():
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return ConsoleFiles(found, digest.hexdigest()[:16])


def _read(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{prefix}{each.name}/")
        elif _suffix(each.name) in _MEDIA_TYPES:
            found.append((prefix + each.name, each.read_bytes()))
    return found


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


async def console_page(request: Request) -> Response:
    """Return the page of the console, for every address of it."""
    page = console_files().page
    etag = f'"{hashlib.sha256(page).hexdigest()[:32]}"'
    headers = {**SECURITY_HEADERS, "cache-control": "no-cache", "etag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(page, headers=headers, media_type=_MEDIA_TYPES[".html"])


async def console_file(request: Request) -> Response:
    """Return one file of the console; a digest of another version is not found."""
    served, path = console_files(), request.path_params["path"]
    content = served.by_path.get(path) if request.path_params["digest"] == served.digest else None
    if content is None or path == _INDEX:
        return PlainTextResponse("not found; reload the page", HTTPStatus.NOT_FOUND, SECURITY_HEADERS)
    headers = {**SECURITY_HEADERS, "cache-control": _FOREVER, "etag": f'"{served.digest}"'}
    if headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, headers=headers, media_type=_MEDIA_TYPES[_suffix(path)])


def console_routes() -> list[Route]:
    """Return the routes of the console; they hold no data and need no identity."""
    return [
        *(Route(path, console_page, methods=["GET"]) for path in PAGES),
        Route("/console/{digest}/{path:path}", console_file, methods=["GET"]),
    ]

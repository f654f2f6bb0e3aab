"""Serve the console: one page for every address of it, and its files under a digest of all of them.

The page names its files by the digest, so that a browser may store them for ever and never mixes two versions.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.responses import PlainTextResponse, Response

PAGES = ("", "approvals", "calls", "tools", "sources", "policy", "access")
"""The pages of the console; each serves the same document, whose script reads the address."""

_WITH_DETAILS = ("approvals", "calls", "tools")
_FILES = "console"

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


def is_console_path(path: str) -> bool:
    """Return whether a path belongs to the console: `/`, `/calls`, `/calls/ID`, or `/console/DIGEST/FILE`."""
    first, _, rest = path.removeprefix("/").partition("/")
    return first == _FILES or (first in PAGES and (not rest or first in _WITH_DETAILS))


def missing_page() -> Response:
    """Return the page for an unknown path; its script shows that there is no such page."""
    headers = {**SECURITY_HEADERS, "cache-control": "no-cache"}
    return Response(console_files().page, HTTPStatus.NOT_FOUND, headers, _MEDIA_TYPES[".html"])


def console_response(path: str, if_none_match: str = "") -> Response:
    """Return the page or the file of a path that belongs to the console; it holds no data and needs no identity."""
    first, _, rest = path.removeprefix("/").partition("/")
    served = console_files()
    if first != _FILES:
        page = served.page
        etag = f'"{hashlib.sha256(page).hexdigest()[:32]}"'
        return _response(page, _MEDIA_TYPES[".html"], {"cache-control": "no-cache", "etag": etag}, if_none_match)
    digest, _, name = rest.partition("/")
    content = served.by_path.get(name) if digest == served.digest and name != _INDEX else None
    if content is None:
        return PlainTextResponse("not found; reload the page", HTTPStatus.NOT_FOUND, SECURITY_HEADERS)
    headers = {"cache-control": _FOREVER, "etag": f'"{served.digest}"'}
    return _response(content, _MEDIA_TYPES[_suffix(name)], headers, if_none_match)


def _response(content: bytes, media_type: str, headers: dict[str, str], if_none_match: str) -> Response:
    headers = {**SECURITY_HEADERS, **headers}
    if headers["etag"] in if_none_match:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, headers=headers, media_type=media_type)

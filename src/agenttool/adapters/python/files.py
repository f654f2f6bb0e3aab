"""Files and images as results of tool functions."""

from mimetypes import guess_type
from pathlib import Path

from agenttool.ports.output import Media


class File(Media):
    """A file as the result of a tool: `return File("report.pdf")`."""

    __slots__ = ()

    def __init__(self, path: str | Path, *, media_type: str | None = None, name: str | None = None) -> None:
        """Read the file; its suffix decides the media type if none is given."""
        file = Path(path)
        kind = media_type or guess_type(file.name)[0] or "application/octet-stream"
        super().__init__(file.read_bytes(), kind, name or file.name)


class Image(Media):
    """An image as the result of a tool: `return Image("chart.png")`, or its bytes."""

    __slots__ = ()

    def __init__(self, source: str | Path | bytes, *, media_type: str | None = None) -> None:
        """Take the bytes of an image, by default of a PNG, or read its file."""
        if isinstance(source, bytes):
            super().__init__(source, media_type or "image/png")
        else:
            file = File(source, media_type=media_type)
            super().__init__(file.data, file.media_type, file.name)

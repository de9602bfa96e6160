"""Answers that may be large: encoded, compressed and begun in the handler's thread, never on the event loop."""

import gzip
from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeVar, cast

import msgspec
from litestar import Request, Response
from litestar.enums import MediaType

T = TypeVar("T")
GZIP_FROM = 4096
"""Bytes below which compression costs more than it saves."""
_LEVEL = 4

AnyRequest = Request[Any, Any, Any]


def answer(request: AnyRequest, value: T) -> Response[T]:
    """``value`` as JSON."""
    content, headers = compressed(request, msgspec.json.encode(value))
    return cast(
        Response[T], Response(content, media_type=MediaType.JSON, headers={"Cache-Control": "no-store"} | headers)
    )


def compressed(request: AnyRequest, content: bytes) -> tuple[bytes, dict[str, str]]:
    """The content and the headers that say how it is encoded: by gzip where it is large and the client takes that."""
    if len(content) < GZIP_FROM or "gzip" not in request.headers.get("accept-encoding", ""):
        return content, {}
    return gzip.compress(content, _LEVEL, mtime=0), {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}


def begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces, the first of them read already: what fails at once becomes a problem document, not a torn answer."""
    first = next(pieces, None)
    return pieces if first is None else chain([first], pieces)

"""Answers that may be large are encoded and compressed in the handler's thread, never on the event loop."""

import gzip
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
    """``value`` as JSON, gzip-compressed where it is large and the client takes that."""
    content, headers = msgspec.json.encode(value), {"Cache-Control": "no-store"}
    if len(content) >= GZIP_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, _LEVEL, mtime=0)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return cast(Response[T], Response(content, media_type=MediaType.JSON, headers=headers))

"""The UI's files: the built page for every route of the client, hashed assets that browsers keep, and a plain page
that says how to build the UI where it was not built.
"""

import asyncio
import html
import mimetypes
import os
from collections.abc import Sequence

from litestar import Response, get
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath

from stepward.api.answer import AnyRequest, compressed
from stepward.api.auth import OPEN
from stepward.errors import NotFound

STATIC = os.path.join(os.path.dirname(__file__), "static")
# Of Python alone: a host that knows other types must not change what browsers are told.
_TYPES = mimetypes.MimeTypes()
_TYPES.add_type("text/javascript", ".js")
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><base href="/"><meta charset="utf-8"><title>stepward</title></head>
<h1>stepward serves, but its UI was not built</h1>
<p>In the source tree run <code>make ui</code>, then load this page again. The API is at
<a href="api/v1/openapi.json">api/v1/openapi.json</a>; <code>stepward ls</code> works as it is.</p>
</html>
"""


def interface(root_path: str, folder: str = STATIC) -> Sequence[BaseRouteHandler]:
    """The handlers of the UI's files, for an application that people reach below ``root_path``."""
    root = os.path.realpath(folder)

    @get(["/", "/{path:path}"], opt=OPEN, include_in_schema=False)
    async def page(request: AnyRequest, path: FromPath[str] = "") -> Response[bytes]:
        return await asyncio.to_thread(_page, request, root, root_path, path.strip("/"))

    return [page]


def _page(request: AnyRequest, root: str, root_path: str, name: str) -> Response[bytes]:
    if name.startswith("api/") or "\0" in name:
        raise NotFound(f"there is nothing at /{name}", code="no_such_route", hint="/api/v1/openapi.json lists it")
    file = os.path.realpath(os.path.join(root, name))
    if file.startswith(root + os.sep) and os.path.isfile(file) and name != "index.html":
        return _asset(request, file, name)
    if name.startswith("assets/"):
        raise NotFound(f"there is no file {name}", code="no_such_route")
    return _index(root, root_path)


def _asset(request: AnyRequest, file: str, name: str) -> Response[bytes]:
    with open(file, "rb") as opened:
        content = opened.read()
    kind = _TYPES.guess_type(file)[0] or "application/octet-stream"
    # Vite puts a hash of the content into the names of everything below assets/.
    keep = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"
    content, headers = compressed(request, content) if kind.startswith("text/") else (content, {})
    return Response(content, media_type=kind, headers={"Cache-Control": keep} | headers)


def _index(root: str, root_path: str) -> Response[bytes]:
    try:
        with open(os.path.join(root, "index.html"), encoding="utf-8") as file:
            content = file.read()
    except OSError:
        content = _NOT_BUILT
    # Everything in the page is relative to its base, so that one build serves below any path.
    content = content.replace('<base href="/"', f'<base href="{html.escape(root_path, quote=True)}/"', 1)
    return Response(content.encode(), media_type="text/html; charset=utf-8", headers={"Cache-Control": "no-cache"})

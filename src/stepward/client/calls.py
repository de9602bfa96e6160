"""One request to the API, and its answer as a struct.

A problem document is raised as the error class that the server raised (``errors.from_problem``); an answer that is not
what it should be as ``ParseError``. Nothing of HTTP or of msgspec leaks out.
"""

from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from stepward.client.problems import error_of
from stepward.client.transport import ANSWER_S, Transport
from stepward.errors import ParseError

Answer = TypeVar("Answer")
Query = dict[str, Any]
"""Parameters of a route; None leaves one out."""


class Calls:
    """A server that is asked, and the token that is shown to it."""

    def __init__(self, server: str, token: str | None = None) -> None:
        self.server = server
        self._token = token
        self._transport = Transport(server, token)

    def _get(self, path: str, query: Query, answer: type[Answer]) -> Answer:
        asked = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
        return decoded(self._call("GET", f"{path}?{asked}" if asked else path), answer, path)

    def _send(
        self, method: str, path: str, body: object, answer: type[Answer], *, timeout_s: float = ANSWER_S
    ) -> Answer:
        content = None if body is None else msgspec.json.encode(body)
        return decoded(self._call(method, path, content, timeout_s), answer, path)

    def _call(self, method: str, path: str, body: bytes | None = None, timeout_s: float = ANSWER_S) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        answer = self._transport.request(method, path, body=body, headers=headers, timeout_s=timeout_s)
        if not 200 <= answer.status < 300:
            raise error_of(f"{self.server}{path}", answer.status, answer.headers, answer.body)
        return answer.body


def decoded(data: bytes, answer: type[Answer], path: str) -> Answer:
    """An answer's body as what it should be.

    Raises:
        ParseError: ``bad_answer``.
    """
    try:
        return msgspec.json.decode(data, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(
            f"the answer to {path} is not understood: {error}",
            code="bad_answer",
            hint="is this a stepward server, and not an older or newer one? `stepward doctor` compares",
            sample=data[:200].decode(errors="replace"),
        ) from None


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")

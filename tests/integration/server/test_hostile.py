"""Whatever is asked, the answer is one of ours: never a 5xx, never a traceback in the log."""

import base64
from urllib.parse import quote

import msgspec
import pytest

from .conftest import points

pytestmark = pytest.mark.integration

NUMBERS = ["1" * 30, "-1", str(1 << 63), str(1 << 64), "nan", "-inf", "1e400"]
TEXTS = ["\0", "' OR 1=1 --", "", "x" * 5000, "\U0001f680", "../.."]
VALUES = [*(quote(value, safe="") for value in [*NUMBERS, *TEXTS]), "%FF", "%ED%A0%80"]
FIELDS = ("step=", "created_at>", "metric.loss>", "config.lr=", "tag:", "id:")
PATHS = ["/{}", "/assets/{}", *(f"/api/v1/runs?filter={field}{{}}" for field in FIELDS)]
SAMPLED = 3
"""Of so many values one is tried at a parameter, unless all are."""
BODIES = [
    *(("PATCH", "/api/v1/runs/{}", {name: value}) for name in ("name", "notes") for value in ("\ud800", "\0", None, 5)),
    ("PATCH", "/api/v1/runs/{}", {"tags": ["\ud800"]}),
    ("PATCH", "/api/v1/runs/{}", {"tags": ["x"] * 100_000}),
    *(("POST", "/api/v1/login", {"secret": value}) for value in ("\ud800", 5, "", None)),
    *(("POST", "/api/v1/tokens", {"name": "a", "kind": "viewer", "projects": value}) for value in (["\ud800"], 5)),
    *(
        ("POST", "/api/v1/tokens", {"name": "a", "kind": "viewer", "expires_in_s": value})
        for value in (1e308, -1, "NaN")
    ),
    ("POST", "/api/v1/backups?path=/%00", None),
]


@pytest.fixture(scope="module")
def odd(server):
    writer = server.writer("odd", "hostile").begin(name="odd", user={"lr": 1})
    writer.send(points([1, 2], loss=[1.0, float("nan")]))
    return writer.run


@pytest.mark.parametrize("path", PATHS)
def test_no_value_of_a_path_or_query_breaks_the_server(server, odd, path):
    for value in VALUES:
        answer = server.get(path.format(value))
        assert answer.status < 500, (value, answer.body)


def test_no_value_of_any_parameter_breaks_the_server(server, odd, full_scale):
    step = 1 if full_scale else SAMPLED
    asked = [
        (path, parameter["name"], operation["parameters"])
        for path, methods in server.get("/api/v1/openapi.json").json["paths"].items()
        for method, operation in methods.items()
        for parameter in operation.get("parameters", [])
        if method == "get" and path != "/api/v1/live" and parameter["in"] in ("path", "query")
    ]
    assert len(asked) > 100
    broken = []
    for index, (path, name, parameters) in enumerate(asked):
        for value in VALUES[index % step :: step]:
            url = filled(path, parameters, {"run": odd, "stream": "1"} | {name: value})
            answer = server.get(url)
            if answer.status >= 500:
                broken.append((url[:200], answer.body))
    assert broken == []


def filled(path, parameters, values):
    """The URL of an operation with these values; what else it needs is any word."""
    query = []
    for parameter in parameters:
        name = parameter["name"]
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", values.get(name, "odd"))
        elif parameter["in"] == "query" and (name in values or parameter.get("required")):
            query.append(f"{name}={values.get(name, 'loss')}")
    return path + ("?" + "&".join(query) if query else "")


@pytest.mark.parametrize("sort", ["-started_at", "name", "step", "metric.loss", "config.lr"])
@pytest.mark.parametrize("value", [1 << 63, (1 << 64) - 1, -(1 << 63), 1e308, "x", None])
def test_no_cursor_breaks_the_server(server, odd, sort, value):
    cursor = base64.urlsafe_b64encode(msgspec.msgpack.encode([sort, value, "run_x"])).decode().rstrip("=")
    assert server.get(f"/api/v1/runs?sort={sort}&cursor={cursor}").status in (200, 400)


@pytest.mark.parametrize(("method", "path", "body"), BODIES)
def test_no_body_breaks_the_server(server, odd, method, path, body):
    answer = server.ask(method, path.format(odd), body)
    assert answer.status < 500, answer.body

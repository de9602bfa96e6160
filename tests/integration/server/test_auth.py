"""Who may do what: every route, every kind of token, and a project that is not the token's."""

import re

import pytest

from stepward.model.frames import Status

from .conftest import now

pytestmark = pytest.mark.integration

READS, EDITS, ADMIN, INGESTS = "viewer editor admin", "editor admin", "admin", "ingest editor admin"
OWNS = "admin of the project"
ROUTES = [
    ("GET", "/metrics", READS),
    ("GET", "/api/v1/openapi.json", READS),
    ("GET", "/api/v1/session", "viewer editor admin ingest"),
    ("POST", "/api/v1/logout", "viewer editor admin ingest"),
    ("POST", "/api/v1/login-links", READS),
    ("GET", "/api/v1/tokens", ADMIN),
    ("POST", "/api/v1/tokens", ADMIN),
    ("DELETE", "/api/v1/tokens/{id}", ADMIN),
    ("GET", "/api/v1/projects", READS),
    ("GET", "/api/v1/goodput", READS),
    ("GET", "/api/v1/runs/{run}/goodput", READS),
    ("GET", "/api/v1/runs", READS),
    ("GET", "/api/v1/runs/{run}", READS),
    ("PATCH", "/api/v1/runs/{run}", EDITS),
    ("DELETE", "/api/v1/runs/{run}", EDITS),
    ("GET", "/api/v1/runs/{run}/config", READS),
    ("GET", "/api/v1/runs/{run}/sources", READS),
    ("GET", "/api/v1/runs/{run}/series", READS),
    ("GET", "/api/v1/runs/{run}/points", READS),
    ("GET", "/api/v1/runs/{run}/steps", READS),
    ("GET", "/api/v1/runs/{run}/ranks-profile", READS),
    ("GET", "/api/v1/runs/{run}/tail", READS),
    ("GET", "/api/v1/runs/{run}/stats", READS),
    ("GET", "/api/v1/compare", READS),
    ("GET", "/api/v1/runs/{run}/events", READS),
    ("GET", "/api/v1/runs/{run}/logs", READS),
    ("GET", "/api/v1/runs/{run}/logs/{stream}", READS),
    ("GET", "/api/v1/runs/{run}/logs/{stream}/raw", READS),
    ("GET", "/api/v1/runs/{run}/export", READS),
    ("GET", "/api/v1/live", READS),
    ("POST", "/api/v1/ingest", INGESTS),
    ("GET", "/api/v1/jobs/claims", INGESTS),
    ("POST", "/api/v1/backups", ADMIN),
    ("GET", "/api/v1/projects/{name}", READS),
    ("PATCH", "/api/v1/projects/{name}", OWNS),
    ("GET", "/api/v1/projects/{name}/rules", READS),
    ("PUT", "/api/v1/projects/{name}/rules", EDITS),
    ("GET", "/api/v1/events", READS),
    ("GET", "/api/v1/runs/{run}/events/{event}", READS),
    ("GET", "/api/v1/runs/{run}/events/{event}/diagnosis", READS),
    ("GET", "/api/v1/runs/{run}/diagnoses", READS),
    ("GET", "/api/v1/runs/{run}/diagnosis", READS),
    ("POST", "/api/v1/runs/{run}/diagnosis", EDITS),
    ("POST", "/api/v1/runs/{run}/reprocess", EDITS),
    ("GET", "/api/v1/runs/{run}/reprocess/{job}", READS),
    ("GET", "/api/v1/runs/{run}/nodes", READS),
    ("GET", "/api/v1/runs/{run}/nodes/{node}/points", READS),
    ("GET", "/api/v1/nodes", READS),
    ("GET", "/api/v1/clusters/{cluster}/nodes/{node}", READS),
    ("POST", "/api/v1/clusters/{cluster}/nodes/{node}/{verb}", ADMIN),
    ("GET", "/api/v1/clusters", READS),
    ("POST", "/api/v1/clusters", ADMIN),
    ("GET", "/api/v1/clusters/{cluster}", READS),
    ("PUT", "/api/v1/clusters/{cluster}", ADMIN),
    ("DELETE", "/api/v1/clusters/{cluster}", ADMIN),
    ("POST", "/api/v1/clusters/{cluster}/plan", READS),
    ("GET", "/api/v1/operations", READS),
    ("GET", "/api/v1/operations/{operation}", READS),
    ("GET", "/api/v1/clusters/{cluster}/jobs", READS),
    ("POST", "/api/v1/clusters/{cluster}/jobs", ADMIN),
    ("GET", "/api/v1/clusters/{cluster}/jobs/{job}", READS),
    ("POST", "/api/v1/clusters/{cluster}/jobs/{job}/{verb}", ADMIN),
    ("GET", "/api/v1/clusters/{cluster}/jobs/{job}/logs", READS),
    ("GET", "/api/v1/actions", READS),
    ("GET", "/api/v1/notices", ADMIN),
    ("GET", "/api/v1/notices/routes", ADMIN),
    ("PUT", "/api/v1/notices/routes/{name}", ADMIN),
    ("DELETE", "/api/v1/notices/routes/{name}", ADMIN),
    ("POST", "/api/v1/notices/routes/{name}/test", ADMIN),
    ("GET", "/api/v1/notices/silences", READS),
    ("POST", "/api/v1/notices/silences", EDITS),
    ("DELETE", "/api/v1/notices/silences/{id}", EDITS),
]
NAMES = {
    "run": "run_absent", "stream": "s", "id": "tok_absent", "name": "absent", "event": "e", "job": "7", "node": "n",
    "cluster": "absent", "operation": "op_absent", "verb": "cancel",
}  # fmt: skip
BODIES = {
    ("POST", "/api/v1/tokens"): {"name": "n", "kind": "viewer"},
    ("POST", "/api/v1/clusters"): {"spec": {}},
    ("PUT", "/api/v1/clusters/absent"): {"spec": {}},
    ("PUT", "/api/v1/notices/routes/absent"): {"name": "absent", "kind": "webhook", "url": "http://127.0.0.1:9/"},
}
OPEN = [("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/api/v1/login")]
KINDS = ("admin", "editor", "viewer", "ingest")


@pytest.fixture(scope="module")
def tokens(server):
    server.writer("seen", "mine").begin(name="seen")
    return {kind: server.new_token(kind, ["mine"]) for kind in KINDS}


def request(server, method, path, token):
    """A request that reaches the route and, where it may, fails there for want of the thing it names."""
    path = path.format(**NAMES | ({"verb": "drain"} if "/nodes/" in path else {}))
    body = BODIES.get((method, path), {} if method in ("PATCH", "PUT") or "jobs" in path else None)
    if path == "/api/v1/live":
        path += "?run=" + "&run=".join("x" * 101)  # refused by the handler, since an open stream never ends
    if path.endswith(("/points", "/ranks-profile", "/tail", "/stats")):
        path += "?metric=m"
    if path == "/api/v1/jobs/claims":
        path += "?cluster=c"
    if path == "/api/v1/compare":
        path += "?metric=m&run=run_absent"
    return server.ask(method, path, None if method == "GET" else body, token=token)


def test_the_matrix_is_complete(server):
    paths = server.get("/api/v1/openapi.json").json["paths"]
    documented = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    asked = {(method, path) for method, path, _ in ROUTES} - {("GET", "/api/v1/openapi.json")}
    assert documented == asked | set(OPEN)


@pytest.mark.parametrize(("method", "path", "allowed"), ROUTES)
def test_kinds(server, tokens, method, path, allowed):
    for kind in KINDS:
        answer = request(server, method, path, tokens[kind])
        if kind in allowed.split():
            # An administrator of one project is none of the server.
            whole = allowed == ADMIN
            assert answer.status not in (401, 500), (kind, answer.body)
            assert (answer.status == 403) is whole, (kind, answer.body)
        else:
            assert (answer.status, answer.code) == (403, "not_allowed"), kind


@pytest.mark.parametrize(("method", "path", "allowed"), ROUTES)
def test_no_credential_and_a_wrong_one(server, method, path, allowed):
    assert (request(server, method, path, None).status, request(server, method, path, None).code) == (
        401,
        "no_credential",
    )
    assert request(server, method, path, "sw_wrong").code == "bad_token"


def test_open_routes(server):
    assert server.get("/healthz", token=None).json["status"] == "ok"
    assert server.get("/readyz", token=None).json["status"] == "ok"
    assert server.ask("POST", "/api/v1/login", {"secret": "x"}, token=None).code == "bad_login"


def test_another_project_does_not_exist(server, tokens):
    theirs = server.writer("hidden", "theirs").begin(name="hidden")
    compared = server.get(f"/api/v1/compare?metric=m&run=seen&run={theirs.run}", token=tokens["admin"])
    assert (compared.status, compared.code) == (404, "no_such_run")
    of_a_run = [(method, path) for method, path, _ in ROUTES if "{run}" in path]
    assert len(of_a_run) > 20
    for method, path in of_a_run:
        for named in (theirs.run, "hidden"):
            answer = request(server, method, path.replace("{run}", named), tokens["admin"])
            assert (answer.status, answer.code) == (404, "no_such_run"), (method, path)
    assert [run["name"] for run in server.get("/api/v1/runs", token=tokens["viewer"]).json["items"]] == ["seen"]
    assert server.get("/api/v1/runs?project=theirs", token=tokens["viewer"]).code == "no_such_project"
    assert [project["name"] for project in server.get("/api/v1/projects", token=tokens["viewer"]).json] == ["mine"]
    foreign = server.writer("new", "theirs", token=tokens["ingest"])
    answer = foreign.post(foreign.frame(("status", Status(at=now()))))
    assert (answer.status, answer.code) == (403, "project_not_allowed")
    assert server.writer("new", "mine", token=tokens["ingest"]).begin().seq > 0


def test_tokens_are_shown_once_and_can_be_revoked(server):
    made = server.ask("POST", "/api/v1/tokens", {"name": "ci", "kind": "viewer", "expires_in_s": 3600}).json
    assert server.get("/api/v1/session", token=made["secret"]).json["name"] == "ci"
    listed = server.get("/api/v1/tokens").json
    assert made["secret"] not in str(listed)
    (entry,) = [token for token in listed if token["id"] == made["id"]]
    assert entry["last_used_at"] and entry["expires_at"] and entry["secret"] is None
    assert server.ask("DELETE", f"/api/v1/tokens/{made['id']}").status == 204
    assert server.get("/api/v1/session", token=made["secret"]).code == "bad_token"
    assert server.ask("DELETE", f"/api/v1/tokens/{made['id']}").code == "no_such_token"
    assert server.ask("DELETE", "/api/v1/tokens/local").code == "local_token"


def test_secrets_are_not_in_the_data_folder(server):
    secret = server.new_token("viewer")
    with open(f"{server.data}/catalog.db", "rb") as file, open(f"{server.data}/catalog.db-wal", "rb") as wal:
        content = file.read() + wal.read()
    assert secret.encode() not in content and server.token.encode() not in content


# ── browsers ──


def sign_in(server):
    link = server.ask("POST", "/api/v1/login-links").json["url"]
    secret = link.partition("#login=")[2]
    answer = server.ask("POST", "/api/v1/login", {"secret": secret}, token=None)
    assert answer.status == 200, answer.body
    return secret, answer.headers["Set-Cookie"]


def test_a_link_signs_in_once(server):
    secret, cookie = sign_in(server)
    assert re.search(r"; HttpOnly", cookie, re.I) and re.search(r"SameSite=Strict", cookie, re.I)
    name = cookie.partition(";")[0]
    assert server.get("/api/v1/session", token=None, headers={"Cookie": name}).json["kind"] == "admin"
    again = server.ask("POST", "/api/v1/login", {"secret": secret}, token=None)
    assert (again.status, again.code) == (401, "bad_login")


def test_a_cookie_writes_only_from_our_own_page(server):
    writer = server.writer("cookie").begin()
    cookie = sign_in(server)[1].partition(";")[0]
    path = f"/api/v1/runs/{writer.run}"
    own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{server.port}"}
    assert server.ask("PATCH", path, {"notes": "x"}, token=None, headers=own).status == 200
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}", ""):
        sent = {"Cookie": cookie} | ({"Origin": origin} if origin else {})
        answer = server.ask("PATCH", path, {"notes": "y"}, token=None, headers=sent)
        assert (answer.status, answer.code) == (403, "foreign_origin")
    assert server.get(path).json["notes"] == "x"


def test_a_session_ends_with_logout(server):
    cookie = sign_in(server)[1].partition(";")[0]
    own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{server.port}"}
    assert server.ask("POST", "/api/v1/logout", token=None, headers=own).status == 204
    assert server.get("/api/v1/session", token=None, headers=own).code == "no_credential"


def test_a_session_ends_with_its_token(server):
    made = server.ask("POST", "/api/v1/tokens", {"name": "t", "kind": "viewer"}).json
    answer = server.ask("POST", "/api/v1/login", {"secret": made["secret"]}, token=None)
    cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
    assert server.get("/api/v1/session", token=None, headers=cookie).json["name"] == "t"
    server.ask("DELETE", f"/api/v1/tokens/{made['id']}")
    assert server.get("/api/v1/session", token=None, headers=cookie).code == "no_credential"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "10.0.0.1", "", "127.0.0.1:80@evil.example"]
)
@pytest.mark.parametrize("path", ["/", "/healthz", "/api/v1/runs"])
def test_a_foreign_host_is_refused(server, host, path):
    answer = server.get(path, headers={"Host": host})
    assert (answer.status, answer.code) == (403, "foreign_host")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"secret": ' * 20_000, b"{", b"\xff", b""])
def test_a_login_that_is_none_is_a_bad_request(server, body):
    answer = server.ask("POST", "/api/v1/login", body, token=None, headers={"Content-Type": "application/json"})
    assert (answer.status, answer.code) == (400, "bad_request")


def test_little_is_read_of_somebody_unknown(server):
    body = {"secret": "x" * (1 << 20)}
    assert server.ask("POST", "/api/v1/login", body, token=None).code == "body_too_large"
    for method, path in (("POST", "/api/v1/ingest"), ("POST", "/api/v1/tokens")):
        answer = server.ask(method, path, body, token=None)
        assert (answer.status, answer.code) == (401, "no_credential")


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "[::1]:80", "127.0.0.1"])
def test_loopback_names_are_welcome(server, host):
    assert server.get("/healthz", headers={"Host": host}).status == 200


def test_headers_for_browsers(server):
    for path in ("/", "/api/v1/runs", "/api/v1/nope"):
        headers = server.get(path).headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"

"""The UI's files: what is served, what is kept by browsers, and that nothing outside of the folder is."""

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from stepward.api.problems import on_stepward_error
from stepward.errors import StepwardError
from stepward.server.interface import interface


def client(folder, root_path=""):
    app = Litestar(list(interface(root_path, str(folder))), exception_handlers={StepwardError: on_stepward_error})
    return TestClient(app)


@pytest.fixture
def built(tmp_path):
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text('<html><head><base href="/" /></head></html>')
    (folder / "assets" / "app-1a2b.js").write_text("let x = 1;\n" * 1000)
    (folder / "icon.svg").write_text("<svg/>")
    (tmp_path / "secret").write_text("kept from everybody")
    (folder / "link").symlink_to(tmp_path / "secret")
    return folder


@pytest.mark.parametrize("path", ["/", "/runs/run_x", "/runs/a.b", "/index.html", "/settings"])
def test_every_route_of_the_client_gets_the_page(built, path):
    with client(built, "/x&y") as asked:
        answer = asked.get(path)
    assert '<base href="/x&amp;y/"' in answer.text and answer.headers["cache-control"] == "no-cache"


def test_hashed_assets_are_kept(built):
    with client(built) as asked:
        answer = asked.get("/assets/app-1a2b.js", headers={"Accept-Encoding": "gzip"})
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].startswith("text/javascript")
        assert answer.headers["content-encoding"] == "gzip" and answer.text.startswith("let x")
        assert asked.get("/icon.svg").headers["cache-control"] == "no-cache"
        assert asked.get("/assets/gone.js").status_code == 404
        assert asked.get("/api/gone").json()["code"] == "no_such_route"


@pytest.mark.parametrize("path", ["/../secret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret", "/link", "//etc/passwd"])
def test_nothing_outside_of_the_folder_is_served(built, path):
    with client(built) as asked:
        answer = asked.get(path)
    assert "kept from" not in answer.text and "root:" not in answer.text


def test_types_do_not_depend_on_the_host(built, monkeypatch):
    monkeypatch.setattr("mimetypes.guess_type", lambda *_: ("text/plain", None))
    with client(built) as asked:
        assert asked.get("/assets/app-1a2b.js").headers["content-type"].startswith("text/javascript")
        assert asked.get("/icon.svg").headers["content-type"].startswith("image/svg+xml")


def test_without_a_build_the_page_says_how_to_make_one(tmp_path):
    with client(tmp_path / "none", "/sub") as asked:
        answer = asked.get("/")
    assert "make ui" in answer.text and '<base href="/sub/"' in answer.text

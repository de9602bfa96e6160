import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward import errors
from stepward.client.api import Client
from stepward.client.problems import error_of
from stepward.errors import OUTCOMES, NotFound, ParseError, StepwardError, Unavailable, UsageError
from stepward.model.resources import NewToken
from stepward.model.words import TokenKind
from stepward.settings import Settings


def page(items, next=None):
    return (200, {"items": items, "total": len(items), "next": next})


def test_a_run_is_read_as_it_was_sent(recorded, run_json):
    client = recorded({("GET", "/api/v1/runs/pretrain"): (200, run_json())})
    run = client.run("pretrain")
    assert (run.name, run.attempts[1].last_step, run.latest["bad"].value) == ("pretrain", 7, "NaN")


def test_names_of_runs_are_quoted_in_the_path(recorded, run_json):
    client = recorded({("GET", "/api/v1/runs/a%2Fb%20%3F%F0%9F%9A%80"): (200, run_json())})
    assert client.run("a/b ?🚀").name == "pretrain"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_would_name_another_route_is_no_run(recorded, name):
    with pytest.raises(NotFound) as missing:
        recorded({}).run(name)
    assert missing.value.code == "no_such_run"


def test_pages_are_followed_to_the_limit(recorded, run_json):
    runs = [run_json(id=f"run_{number}") for number in range(5)]
    path = "/api/v1/runs"
    answers = {
        ("GET", f"{path}?sort=name&limit=4"): page(runs[:2], "c1"),
        ("GET", f"{path}?sort=name&cursor=c1&limit=2"): page(runs[2:5], "c2"),
    }
    found = list(recorded(answers).runs(sort="name", limit=4))
    assert [run.id for run in found] == ["run_0", "run_1", "run_2", "run_3"]


def test_all_pages_are_read_without_a_limit(recorded, run_json):
    path = "/api/v1/runs?"
    answers = {
        ("GET", f"{path}limit=500"): page([run_json(id="run_1")], "c1"),
        ("GET", f"{path}cursor=c1&limit=500"): page([run_json(id="run_2")]),
    }
    assert [run.id for run in recorded(answers).runs()] == ["run_1", "run_2"]


def test_log_lines_go_on_behind_folded_lines(recorded):
    stream = {"id": "s1", "stream": "stdout", "attempt": 1}
    path = "/api/v1/runs/r/logs/s1?"
    answers = {
        ("GET", f"{path}from_n=1&limit=5000"): (
            200,
            {"stream": stream, "lines": [{"n": 1, "text": "a"}, {"n": 2, "n_last": 9, "text": "b", "repeats": 8}]},
        ),
        ("GET", f"{path}from_n=10&limit=5000"): (200, {"stream": stream, "lines": []}),
    }
    assert [line.text for line in recorded(answers).log_lines("r", "s1")] == ["a", "b"]


def test_a_token_is_asked_for_and_its_secret_read(recorded):
    client = recorded(
        {
            ("POST", "/api/v1/tokens"): (
                201,
                {
                    "id": "t1",
                    "name": "ci",
                    "kind": "ingest",
                    "created_at": "2026-12-01T00:00:00.000000Z",
                    "secret": "s",
                },
            )
        }
    )
    assert client.create_token(NewToken(name="ci", kind=TokenKind.INGEST, projects=["llm"])).secret == "s"
    assert client._transport.asked[0][2] == b'{"name":"ci","kind":"ingest","projects":["llm"],"expires_in_s":null}'


RAISED = [kind for kind in OUTCOMES if kind not in (errors.MissingExtra, StepwardError)]


@pytest.mark.parametrize("kind", RAISED)
def test_the_class_that_the_server_raised_is_raised(recorded, kind):
    problem = {"code": "some_code", "detail": "what", "hint": "do", "status": OUTCOMES[kind][0], "position": 3}
    client = recorded({("GET", "/api/v1/session"): (OUTCOMES[kind][0], problem)})
    with pytest.raises(kind) as raised:
        client.session()
    assert type(raised.value) is kind
    assert (raised.value.code, raised.value.message, raised.value.hint) == ("some_code", "what", "do")
    assert raised.value.context == {"position": 3}


@pytest.mark.parametrize("asked", ["inf", "nan", "-5", "1e9", "soon", "", "Wed, 21 Oct 2026 07:28:00 GMT"])
@pytest.mark.parametrize("body", [b"", b'{"code":"busy","retry_after_s":"inf"}'])
def test_a_wait_that_cannot_be_meant_is_not_believed(asked, body):
    error = error_of("x", 503, {"retry-after": asked}, body)
    assert isinstance(error, Unavailable) and error.retry_after_s == 1.0


def test_a_server_says_when_to_come_again():
    error = error_of("x", 503, {"retry-after": "7"}, b'{"code":"busy","detail":"later"}')
    assert isinstance(error, Unavailable) and error.retry_after_s == 7.0


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_proxy_without_its_server_means_later(status):
    error = error_of("http://x/y", status, {}, b"<html>Bad gateway</html>")
    assert isinstance(error, Unavailable) and "http://x/y" in error.message


def test_a_moved_server_names_where():
    error = error_of("http://x/y", 301, {"location": "https://x/y"}, b"")
    assert isinstance(error, UsageError) and error.hint is not None and "https://x/y" in error.hint


@given(st.integers(300, 599), st.binary(max_size=200), st.dictionaries(st.text(max_size=12), st.text(max_size=12)))
def test_any_answer_of_anybody_becomes_an_error_of_ours(status, body, headers):
    assert isinstance(error_of("x", status, headers, body), StepwardError)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"kind": 1}', b"\xff\xfe"])
def test_an_answer_that_is_no_answer(recorded, body):
    with pytest.raises(ParseError) as raised:
        recorded({("GET", "/api/v1/session"): (200, body)}).session()
    assert raised.value.code == "bad_answer"


def test_a_missing_thing(recorded):
    with pytest.raises(NotFound):
        recorded({}).run("nope")


@pytest.mark.parametrize("url", ["http://h:port", "http://h:99999", "http://[::1"])
def test_a_bad_url_is_the_callers_mistake(url):
    with pytest.raises(UsageError) as raised:
        Client.of(Settings(server=url))
    assert raised.value.code == "bad_server_url"


def test_no_server_says_what_to_do():
    with pytest.raises(UsageError) as raised:
        Client.of(Settings())
    assert raised.value.code == "no_server" and "stepward up" in (raised.value.hint or "")

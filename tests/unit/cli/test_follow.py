import pytest

from stepward.cli.follow import Following
from stepward.client.live import Opened
from stepward.model.resources import LogLine, LogPage, LogStream, Run
from stepward.model.states import State
from stepward.model.updates import LogsUpdate, RunUpdate


class Output:
    """A run whose streams are lists of texts that a test lets grow."""

    def __init__(self, run, moments):
        self.now, self.moments, self.streams = run, list(moments), {}

    def run(self, _run):
        return self.now

    def log_streams(self, _run):
        return [
            LogStream(
                id=name, stream="stdout", attempt=int(name[0]), rank=0, lines=len(texts), bytes=len("".join(texts))
            )
            for name, texts in self.streams.items()
        ]

    def log_lines(self, _run, stream, from_n):
        return iter([LogLine(n=n, text=text) for n, text in enumerate(self.streams[stream], 1) if n >= from_n])

    def log_page(self, _run, stream, **_query):
        return LogPage(stream=self.log_streams("")[0], lines=[])

    def live(self, run):
        return self

    def next(self, _timeout_s):
        if not self.moments:
            return None
        change, update = self.moments.pop(0)
        change(self)
        return update


class Taken:
    def __init__(self):
        self.texts = []

    def write(self, lines):
        self.texts += [printed.line.text for printed in lines]


@pytest.fixture
def followed(run_json):
    """What is printed of a run while moments pass: (change of the output, update); it has ended after the last."""
    import msgspec

    run = msgspec.convert(run_json(attempts=[]), Run)
    ended = msgspec.structs.replace(run, state=State.FINISHED)

    def follow(*moments, known=(), wanted=(None, None, None)):
        end = (lambda _output: None, RunUpdate(ended))
        output, taken = Output(run, [*moments, end]), Taken()
        output.streams.update({name: list(texts) for name, texts in known})
        Following(output, run, taken, wanted, known=output.log_streams(""), shown=[]).until_the_end()
        return taken.texts

    return follow


def added(**streams):
    def change(output):
        for name, texts in streams.items():
            output.streams.setdefault(name[1:], []).extend(texts)

    return change, LogsUpdate("run_1", {})


def test_lines_come_once_each(followed):
    assert followed(added(_1a=["a"]), added(_1a=["b", "c"]), (lambda _: None, Opened())) == ["a", "b", "c"]


def test_what_was_there_is_not_printed_again(followed):
    assert followed(added(_1a=["new"]), known=[("1a", ["old", "older"])]) == ["new"]


def test_what_came_while_the_stream_was_down_is_fetched(followed):
    silent, _ = added(_1a=["a", "b"])
    assert followed((silent, Opened())) == ["a", "b"]


def test_the_last_words_come_without_an_update(followed):
    last, _ = added(_1a=["bye"])
    assert followed((last, None)) == ["bye"]


def test_a_line_that_grew_is_printed_as_it_is_now(followed):
    def grow(output):
        output.streams["1a"][-1] = " 10% 50%"

    assert followed(added(_1a=["start", " 10%"]), (grow, LogsUpdate("run_1", {}))) == ["start", " 10%", " 10% 50%"]


def test_a_restart_is_followed_and_earlier_attempts_are_not(followed):
    moments = [added(_2a=["two"]), added(_1a=["late"]), added(_3a=["three"])]
    assert followed(*moments, known=[("1a", []), ("2a", [])]) == ["two", "three"]
    assert followed(*moments, known=[("1a", []), ("2a", [])], wanted=(None, None, 1)) == ["late"]

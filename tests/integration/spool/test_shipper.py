"""The shipper against a server in another process that is away, slow or lying: nothing is lost, nothing comes twice."""

import json
import os
import socket

import pytest

from stepward.errors import Unavailable
from stepward.settings import Settings
from stepward.spool import shipper as shipper_module
from stepward.spool import writers
from stepward.spool.shipper import Shipper
from stepward.spool.sync import sync

pytestmark = pytest.mark.integration
RUN = "run_" + "b" * 26


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(shipper_module, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(shipper_module, "TICK_S", 0.05)
    monkeypatch.setattr(shipper_module, "STANDBY_S", 0.1)
    monkeypatch.setattr(shipper_module, "DENIED_PAUSE_S", 0.2)


@pytest.fixture
def ship(spool):
    started = []

    def start(settings, journal, run=RUN):
        started.append(Shipper(settings, str(spool), run, journal))
        started[-1].start()
        return started[-1]

    yield start
    for shipper in started:
        shipper.stop(120.0)


def fill(journal, start, count):
    keyset = journal.define([("a", "", None)])
    for n in range(start, start + count):
        assert journal.row(keyset, n, n, [float(n)])


def test_rows_arrive_and_the_folder_goes(create, ship, liar, settings_of, spool):
    journal = create()
    fill(journal, 0, 1000)
    shipper = ship(settings_of(liar), journal)
    assert shipper.flush(120)
    assert liar.rows() == {(journal.meta.writer, n): 1 for n in range(1000)}
    assert all(line.endswith("Bearer t") for line in liar.lines("asked"))
    journal.close()
    shipper.stop(120)
    sync(settings_of(liar))
    assert os.listdir(spool) == []


@pytest.mark.parametrize(
    "mode",
    ["deaf", "hang_up", "noise", "html", "too_far", "too_short", "gap_nowhere", "broken", "busy", "denied", "half"],
)
def test_no_lie_loses_or_doubles_a_row(mode, create, ship, liar, settings_of, wait_for, monkeypatch):
    monkeypatch.setattr("stepward.spool.rounds.STUCK_PAUSE_S", 0.2)
    journal = create()
    fill(journal, 0, 200)
    liar.say(mode)
    shipper = ship(settings_of(liar), journal)
    wait_for(lambda: liar.asked(mode) >= 2, "two requests")
    if mode != "deaf":
        assert not shipper.flush(0.3)
        assert shipper.problem
    fill(journal, 200, 200)
    liar.say("good")
    assert shipper.flush(120), shipper.problem
    assert liar.rows() == {(journal.meta.writer, n): 1 for n in range(400)}
    assert not liar.lines("events")


def test_an_answer_that_never_ends_is_given_up(create, ship, liar, settings_of, monkeypatch, wait_for):
    monkeypatch.setattr("stepward.spool.delivery.ANSWER_S", 0.5)
    journal = create()
    fill(journal, 0, 10)
    liar.say("drip")
    shipper = ship(settings_of(liar), journal)
    wait_for(lambda: liar.asked("drip") >= 2, "a second try")
    liar.say("good")
    assert shipper.flush(120)
    assert set(liar.rows().values()) == {1}


def test_a_server_that_swallows_everything_holds_nobody_up(create, ship, settings_of, liar, spool):
    with socket.create_server(("127.0.0.1", 0), backlog=1) as hole:
        journal = create()
        settings = Settings(server=f"http://127.0.0.1:{hole.getsockname()[1]}", spool=str(spool))
        shipper = ship(settings, journal)
        fill(journal, 0, 500)
        assert not shipper.flush(0.5)
        shipper.stop(0.1)
    journal.close()
    # The thread may still wait for its answer, with the lock; the next one waits for it.
    shipper.stop(120)
    assert sync(settings_of(liar)).problem == ""
    assert len(liar.rows()) == 500


def test_a_server_that_was_never_heard_is_not_waited_for_long(create, ship, spool):
    """The test ends; it would take an hour otherwise."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as hole:
        journal = create()
        fill(journal, 0, 10)
        settings = Settings(server=f"http://127.0.0.1:{hole.getsockname()[1]}", spool=str(spool))
        shipper = ship(settings, journal)
        assert not shipper.flush(3600, unheard_s=0.2)
        shipper.stop(0.1)


def test_a_server_that_was_heard_is_waited_for(create, ship, liar, settings_of):
    journal = create()
    fill(journal, 0, 10)
    assert ship(settings_of(liar), journal).flush(120)
    fill(journal, 10, 10)
    # Another process that ships nothing itself knows by what is in the folder.
    assert ship(settings_of(liar), journal).flush(120, unheard_s=0.0)
    assert len(liar.rows()) == 20


def test_a_server_that_is_started_later_is_found(create, ship, liar, spool, wait_for):
    journal = create()
    fill(journal, 0, 10)
    shipper = ship(Settings(server=None, spool=str(spool)), journal)
    wait_for(lambda: shipper.problem, "the shipper to miss a server")
    assert not liar.rows()
    announce = f"{os.environ['XDG_STATE_HOME']}/stepward/servers"
    os.makedirs(announce)
    with open(f"{announce}/1.json", "w") as file:
        json.dump({"url": liar.url, "data": str(spool), "pid": os.getpid()}, file)
    assert shipper.flush(120)
    assert len(liar.rows()) == 10


def test_rows_wait_until_their_run_is_known(create, ship, liar, settings_of, wait_for):
    journal = create(run=None)
    fill(journal, 0, 10)
    shipper = ship(settings_of(liar), journal, run=None)
    assert not shipper.flush(0.3)
    assert not liar.rows()
    journal.assign(RUN)
    assert shipper.flush(120)
    assert len(liar.rows()) == 10


def test_who_does_not_hold_the_lock_waits_for_who_does(create, ship, liar, settings_of, spool):
    first, second = create(), create()
    holder = ship(settings_of(liar), first)
    fill(first, 0, 10)
    assert holder.flush(120)
    other = ship(settings_of(liar), second)
    fill(second, 0, 10)
    assert other.flush(120)
    assert other._rounds is None
    holder.stop(120)
    fill(second, 10, 10)
    assert other.flush(120)
    assert set(liar.rows().values()) == {1}
    assert len(liar.rows()) == 30


def test_sync_leaves_alone_what_another_ships(create, ship, liar, settings_of):
    journal = create()
    fill(journal, 0, 10)
    holder = ship(settings_of(liar), journal)
    assert holder.flush(120)
    assert sync(settings_of(liar)).busy == [RUN]


def test_sync_needs_a_server_and_gives_up_on_one_that_is_away(create, spool):
    journal = create()
    fill(journal, 0, 10)
    with pytest.raises(Unavailable) as caught:
        sync(Settings(server=None, spool=str(spool)))
    assert caught.value.code == "no_server"
    report = sync(Settings(server="http://127.0.0.1:9", spool=str(spool)), timeout_s=0.2)
    assert report.problem
    assert report.left_bytes == journal.end


def test_sync_gives_finished_writers_without_a_run_the_run_of_their_sibling(create, liar, settings_of, spool):
    known, orphan, stranger = create(), create(run=None), create(run=None)
    stranger.assign("run_" + "c" * 26)
    for journal in (known, orphan, stranger):
        fill(journal, 0, 5)
        journal.close()
    assert sync(settings_of(liar)).problem == ""
    assert len(liar.rows()) == 15
    assert not any(path.is_dir() for path in spool.glob("pending/*"))


def test_a_living_writer_without_a_run_is_left_alone(create, liar, settings_of):
    journal = create(run=None)
    fill(journal, 0, 5)
    sync(settings_of(liar))
    assert os.path.isdir(journal.folder)
    assert not liar.rows()


def test_the_folder_of_a_living_writer_stays(create, liar, settings_of):
    journal = create()
    fill(journal, 0, 5)
    sync(settings_of(liar))
    fill(journal, 5, 5)
    sync(settings_of(liar))
    assert len(liar.rows()) == 10
    assert writers.segments(journal.folder)


def test_a_token_that_will_not_do_is_said_once(create, ship, liar, settings_of, wait_for, capfd):
    journal = create()
    fill(journal, 0, 5)
    liar.say("denied")
    ship(settings_of(liar), journal)
    wait_for(lambda: liar.asked("denied") >= 3, "three tries")
    assert capfd.readouterr().err.count("bad_token") == 1

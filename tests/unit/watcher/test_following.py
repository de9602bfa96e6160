"""Which bytes of a job's output files are new, and whose files are read at all."""

import os

import pytest

from stepward.agent.watcher import following
from stepward.agent.watcher.known import Launch, new_job
from stepward.model.states import State
from stepward.orchestrators.slurm.records import SlurmJob

S = 1_000_000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.txt"


def launched(path, *, number=0, ended=None, uid=None, job=None):
    job = job or new_job("lab", "42", 1, "default")
    job.uid = os.getuid() if uid is None else uid
    launch = Launch(number=number, writer="w", started_at=S, ended_at=ended, end="FAILED" if ended else "")
    job.launches.append(launch)
    record = SlurmJob(
        id="42", number=42, state=State.RUNNING, slurm_state="RUNNING", stdout=str(path), stderr=str(path)
    )
    job.outputs[str(number)] = following.files_of(record)
    (output,) = job.outputs[str(number)]
    return job, launch, output


def read(job, launch, output, now=100 * S):
    news = following.follow(job, launch, output, now)
    return (news.chunk.offset, news.chunk.data) if news.chunk else news.event


def test_a_file_that_is_both_outputs_is_one():
    assert (
        following.files_of(SlurmJob(id="1", number=1, state=State.RUNNING, slurm_state="RUNNING", stdout="/dev/null"))
        == []
    )
    assert len(launched("/a")[0].outputs["0"]) == 1


def test_new_bytes_come_once(path):
    job = launched(path)
    assert read(*job) is None  # not there yet
    path.write_bytes(b"one\n")
    assert read(*job) == (0, b"one\n")
    assert read(*job) is None
    with path.open("ab") as file:
        file.write(b"two\n")
    assert read(*job) == (4, b"two\n")
    assert not job[2].done


def test_a_large_file_comes_in_pieces(path):
    path.write_bytes(b"x" * (following.READ_BYTES + 5))
    job = launched(path)
    assert [len(read(*job)[1]), read(*job)] == [following.READ_BYTES, (following.READ_BYTES, b"xxxxx")]


def test_a_file_that_begins_anew_goes_on_in_the_stream(path):
    path.write_bytes(b"first")
    job = launched(path)
    read(*job)
    path.write_bytes(b"2nd")
    assert read(*job) == (5, b"2nd")


def test_a_file_is_done_a_while_after_the_end(path):
    path.write_bytes(b"x")
    job = launched(path, ended=50 * S)
    read(*job)
    assert read(*job, now=50 * S + following.LAST_LOOK_US - 1) is None
    assert not job[2].done
    read(*job, now=50 * S + following.LAST_LOOK_US)
    assert job[2].done


@pytest.mark.parametrize("append", [True, False])
def test_a_requeued_job_goes_on_behind_its_output_or_in_its_place(path, append):
    path.write_bytes(b"first")
    job, before, output = launched(path, ended=50 * S)
    assert following.begin(job, before, output, append=append)
    read(job, before, output)
    _, after, again = launched(path, number=1, job=job)
    assert not following.begin(job, after, again, append=append), "the first part is not read to its end"
    output.done = True
    assert following.begin(job, after, again, append=append)
    path.write_bytes(b"first" * append + b"second")
    assert read(job, after, again) == (0, b"second")


def test_a_file_of_another_user_is_not_read(path):
    path.write_bytes(b"x")
    job = launched(path, uid=os.getuid() + 1)
    event = read(*job)
    assert (event.type, event.data["why"]) == ("output_unreadable", "it does not belong to the job's user")
    assert job[2].done


def test_what_is_no_file_is_not_read_and_does_not_hang(path):
    os.mkfifo(path)
    assert read(*launched(path)).data["why"] == "it is no regular file"
    assert read(*launched(path.parent)).data["why"] == "it is no regular file"


def test_a_file_is_looked_at_when_whoever_is_inside_has_been_heard():
    job, launch, _ = launched("/a")
    start = launch.started_at
    assert not following.due(job, launch, start + following.FOLLOW_AFTER_US - 1)
    assert following.due(job, launch, start + following.FOLLOW_AFTER_US)
    launch.end = "FAILED"
    assert following.due(job, launch, start)
    job.covered = True
    assert not following.due(job, launch, start)

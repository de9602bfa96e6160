"""Jobs through the API and the command line: what people see, what is audited, who may not."""

import csv
import io
import os
import sys

import pytest

from stepward.client.api import Client
from stepward.errors import Conflict, NotFound, PermissionDenied, UsageError
from stepward.model.jobs import JobSubmission
from stepward.model.resources import NewToken
from stepward.model.states import State
from stepward.model.words import TokenKind

from .conftest import begun, ended, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def asked(folder, *command, **fields):
    return JobSubmission(**({"command": list(command), "workdir": str(folder), "mem": "50M"} | fields))


@pytest.fixture
def client(served, slurm):
    """An administrator's client; ``slurm`` makes the cluster idle."""
    return served.client


def viewer(served, projects=None):
    token = served.client.create_token(NewToken(name="v", kind=TokenKind.VIEWER, projects=projects))
    return Client(served.url, token.secret)


def test_a_job_from_submission_to_its_end(client, slurm, tmp_path):
    done = client.submit_job("host", asked(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3", error="%j.err"))
    assert done.id and not done.dry_run and done.argv[0] == "sbatch"
    ended(slurm, done.id)
    job = until(lambda: (one := client.job("host", done.id)).state is State.FAILED and one, "the job's end")
    assert (job.cluster, job.exit_code, job.slurm_state, job.run) == ("host", 3, "FAILED", None)
    assert job.reason_words == "it ended with exit code 3" and job.submitted_at.endswith("Z")
    until(lambda: client.job("host", done.id).attempts, "accounting")
    outputs = {one.stream: [line.text for line in one.lines] for one in client.job_logs("host", done.id).outputs}
    assert outputs == {"stdout": ["out"], "stderr": ["err"]}
    record = client.actions(kind="submit").items[0]
    assert (record.outcome, record.data["job"], record.dry_run) == ("done", done.id, False)


def test_why_a_job_waits_is_said_with_what_to_do(client, slurm, tmp_path):
    held = client.submit_job("host", asked(tmp_path, "true", hold=True, name="held one")).id
    jobs = client.jobs("host", state="queued", name="HELD").items
    assert [one.id for one in jobs] == [held]
    assert jobs[0].held and jobs[0].reason == "JobHeldUser" and "release" in jobs[0].advice


def test_a_list_is_filtered_and_paged_without_gap_or_repeat(client, slurm, tmp_path):
    made = [client.submit_job("host", asked(tmp_path, "true", hold=True, name="paged")).id for _ in range(5)]
    seen, cursor = [], None
    while True:
        page = client.jobs("host", name="paged", limit=2, cursor=cursor)
        assert page.total == 5 and len(page.items) <= 2
        seen += [one.id for one in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == sorted(made, key=int, reverse=True)
    assert client.jobs("host", name="paged", user="nobody").items == []
    assert client.jobs("host", name="paged", partition="main", state="PENDING").total == 5
    with pytest.raises(UsageError) as caught:
        client.jobs("host", cursor="x")
    assert caught.value.code == "bad_cursor"


def test_a_bad_submission_names_every_field_and_reaches_nobody(client, slurm, tmp_path):
    before = {one.id for one in slurm.jobs()}
    with pytest.raises(UsageError) as caught:
        client.submit_job("host", asked(tmp_path, "true", nodes=99, time_limit="soon", gres="gpu:99", partition="main"))
    assert caught.value.code == "bad_submission"
    assert {one["field"] for one in caught.value.context["fields"]} == {"nodes", "time_limit", "gres"}
    tried = client.submit_job("host", asked(tmp_path, "true", nodelist="n-1"), dry_run=True)
    assert tried.dry_run and tried.id is None and "start at" in tried.expected
    assert any("waits for ever" in one for one in tried.warnings)
    assert {one.id for one in slurm.jobs()} == before
    assert client.actions(kind="submit").items[0].dry_run


def test_changes_are_done_and_audited(client, slurm, tmp_path):
    job = client.submit_job("host", asked(tmp_path, "sleep", "600", hold=True)).id
    dry = client.change_job("host", job, "release", dry_run=True)
    assert dry.dry_run and slurm.job(job).held
    client.change_job("host", job, "release", reason="go")
    begun(slurm, job)
    client.change_job("host", job, "requeue", reason="again")
    until(lambda: slurm.job(job).restarts == 1, "the requeue")
    client.change_job("host", job, "cancel")
    ended(slurm, job)
    with pytest.raises(Conflict) as caught:
        client.change_job("host", job, "cancel")
    assert caught.value.code == "job_ended"
    records = client.actions(job=job).items
    told = [(one.kind, one.outcome, one.dry_run, one.reason) for one in reversed(records)]
    assert told == [
        ("release", "done", True, ""), ("release", "done", False, "go"), ("requeue", "done", False, "again"),
        ("cancel", "done", False, ""), ("cancel", "refused", False, ""),
    ]  # fmt: skip
    assert records[0].data["code"] == "job_ended" and records[0].actor
    first = client.actions(job=job, limit=2)
    assert [one.id for one in client.actions(job=job, cursor=first.next).items] == [one.id for one in records[2:]]


def test_who_may_not_change_may_look(served, client, slurm, tmp_path):
    job = client.submit_job("host", asked(tmp_path, "sleep", "600")).id
    begun(slurm, job)
    someone = viewer(served)
    assert someone.job("host", job).id == job and someone.jobs("host").total >= 1
    admin = client.create_token(NewToken(name="a", kind=TokenKind.ADMIN, projects=["p"])).secret
    for low in (someone, viewer(served, ["p"]), Client(served.url, admin)):
        for change in (
            lambda low=low: low.change_job("host", job, "cancel"),
            lambda low=low: low.submit_job("host", asked(tmp_path, "true")),
            lambda low=low: low.job_logs("host", job),
        ):
            with pytest.raises(PermissionDenied) as caught:
                change()
            assert caught.value.code == "not_allowed"
    assert slurm.job(job).state is State.RUNNING
    assert viewer(served, ["none of this"]).actions().items == []
    with pytest.raises(PermissionDenied):
        Client(served.url, client.create_token(NewToken(name="i", kind=TokenKind.INGEST)).secret).jobs("host")


def test_a_job_leads_to_its_run_and_shows_what_the_run_kept(served, client, slurm, slurm_cluster, tmp_path):
    env = {"STEPWARD_SERVER": served.url, "STEPWARD_TOKEN": served.token, "STEPWARD_DIR": str(tmp_path / "spool")}
    command = [sys.executable, "-m", "stepward", "run", "--project", "p", "--", "echo", "kept by the run"]
    job = client.submit_job("host", asked(tmp_path, *command, env=env, mem="500M")).id
    assert ended(slurm, job).state is State.FINISHED
    run = until(lambda: client.job("host", job).run, "the run of the job")
    assert client.run(run).key == f"slurm:{slurm_cluster.slurm_name}:{job}"
    # Whoever may see the run sees its output, administrator or not.
    logs = until(lambda: (found := viewer(served, ["p"]).job_logs("host", job)).outputs and found, "the run's output")
    assert logs.run == run and ["kept by the run"] in [[line.text for line in one.lines] for one in logs.outputs]
    stranger = viewer(served, ["other"])
    assert stranger.job("host", job).run is None
    with pytest.raises(PermissionDenied):
        stranger.job_logs("host", job)
    client.change_job("host", job, "requeue", reason="once more")
    assert [(one.kind, one.run) for one in viewer(served, ["p"]).actions().items] == [("requeue", run)]
    client.change_job("host", job, "cancel")


def test_output_that_is_not_the_jobs_own_is_not_shown(client, slurm, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    link, theirs, pipe = tmp_path / "link.out", tmp_path / "theirs.out", tmp_path / "pipe.out"
    jobs = {}
    for path in (link, theirs, pipe):
        jobs[path] = client.submit_job("host", asked(tmp_path, "true", output=str(path))).id
        ended(slurm, jobs[path])
        path.unlink()
    link.symlink_to(secret)
    theirs.write_text("theirs\n")
    os.chown(theirs, 65534, 65534)
    os.mkfifo(pipe)
    for path in (link, theirs, pipe):
        with pytest.raises(PermissionDenied) as caught:
            client.job_logs("host", jobs[path])
        assert caught.value.code == "output_refused", path
    theirs.unlink()
    with pytest.raises(NotFound) as caught:
        client.job_logs("host", jobs[theirs])
    assert caught.value.code == "no_output"


def test_what_is_not_there_is_named(client):
    for ask, code in (
        (lambda: client.jobs("nowhere"), "no_such_cluster"),
        (lambda: client.job("host", "4000000"), "unknown_job"),
        (lambda: client.change_job("host", "4000000", "hold"), "unknown_job"),
    ):
        with pytest.raises(NotFound) as caught:
            ask()
        assert caught.value.code == code
    for ask, code in (
        (lambda: client.job("host", "null"), "bad_job"),
        (lambda: client.jobs("host", since="x"), "bad_since"),
    ):
        with pytest.raises(UsageError) as caught:
            ask()
        assert caught.value.code == code


def test_the_cluster_is_found_by_slurms_own_name(client, slurm_cluster):
    assert client.jobs(slurm_cluster.slurm_name).total == client.jobs("host").total


def test_the_command_line_lives_a_job(served, slurm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\necho hello $WORD\n")
    done = served.cli("jobs", "submit", "--mem", "50M", "--env", "WORD=world", "-t", "5", "train.sh")
    assert (done.code, done.err) == (0, "") and done.out.startswith("submitted job ")
    job = done.out.split()[-1]
    found = ended(slurm, job)
    assert (found.name, found.workdir) == ("train.sh", str(tmp_path))
    until(lambda: served.cli("jobs", "show", job, "--format", "json").json["state"] == "finished", "its end")
    assert served.cli("jobs", "logs", job).out == "hello world\n"
    rows = list(csv.DictReader(io.StringIO(served.cli("jobs", "ls", "--name", "train", "--format", "csv").out)))
    assert [(row["id"], row["state"], row["exit_code"]) for row in rows if row["id"] == job] == [(job, "finished", "0")]
    held = served.cli("jobs", "submit", "--mem", "50M", "--hold", "--format", "json", "--", "sleep", "600").json["id"]
    assert "it is held by its user" in served.cli("jobs", "ls").out
    shown = served.cli("jobs", "show", held).out
    assert "queued, held" in shown and "stepward jobs release JOB" in shown
    assert served.cli("jobs", "release", held, "--dry-run").out == f"job {held} would be released\n"
    assert served.cli("jobs", "cancel", held, "--reason", "done").out == f"job {held} cancelled\n"
    bad = served.cli("jobs", "submit", "-N", "99", "-t", "soon", "--", "true")
    assert (bad.code, bad.out) == (2, "") and "[bad_submission]" in bad.err and "1 to 4" in bad.err
    assert served.cli("jobs", "cancel", "4000000").code == 1
    assert served.cli("jobs", "submit", "--env", "NO_SUCH_VARIABLE", "--", "true").code == 2


def test_many_tabs_are_one_question(served, client, slurm, slurm_cluster):
    def asked_so_far():
        text = slurm_cluster.run("sdiag")
        line = next(line for line in text.splitlines() if "REQUEST_JOB_INFO " in line)
        return int(line.split("count:")[1].split()[0])

    client.jobs("host")
    before = asked_so_far()
    for _ in range(50):
        client.jobs("host", limit=1)
    # Each of them would have been one; a slow machine may take several seconds for fifty.
    assert asked_so_far() - before < 25


def test_a_node_is_drained_and_given_back_with_reason_limit_and_audit(served, client, slurm, slurm_cluster, tmp_path):
    job = client.submit_job("host", asked(tmp_path, "sleep", "600")).id
    (node,) = begun(slurm, job).nodes
    for low in (
        viewer(served),
        Client(served.url, client.create_token(NewToken(name="e", kind=TokenKind.EDITOR)).secret),
    ):
        with pytest.raises(PermissionDenied) as denied:
            low.change_node("host", node, "drain", reason="no right")
        assert denied.value.code == "not_allowed"
    with pytest.raises(UsageError) as unexplained:
        client.change_node("host", node, "drain")
    assert unexplained.value.code == "no_reason"
    tried = client.change_node("host", node, "drain", reason="new fan", dry_run=True)
    assert (tried.jobs, tried.was.state) == ([job], "mixed") and slurm.node(node).usable
    done = client.change_node("host", node, "drain", reason="new fan")
    actor = client.actions(node=node, kind="node_drain").items[0].actor
    assert (slurm.node(node).state, slurm.node(node).reason) == ("draining", f"{actor}: new fan")
    assert slurm.job(job).state is State.RUNNING, "a drain lets jobs go on"
    others = [name for name in slurm_cluster.nodes if name != node]
    for name in others[:-1]:
        client.change_node("host", name, "drain", reason="all of them")
    for verb, name, code in (
        ("drain", node, "node_drained"),
        ("drain", others[-1], "last_node"),
        ("resume", others[-1], "node_in_service"),
    ):
        with pytest.raises(Conflict) as refused:
            client.change_node("host", name, verb, reason="once more")
        assert refused.value.code == code
    client.change_node("host", others[-1], "drain", reason="all of them", force=True)
    for name in slurm_cluster.nodes:
        assert client.change_node("host", name, "resume").was.reason.startswith(f"{actor}: ")
    # Slurm pings a node that is given back, and takes it once that has answered.
    until(lambda: all(one.usable for one in slurm.nodes()), "all nodes in service")
    with pytest.raises(NotFound) as unknown:
        client.change_node("host", "n-99", "drain", reason="x")
    assert unknown.value.code == "unknown_node"
    records = [(one.kind, one.outcome, one.dry_run) for one in reversed(client.actions(node=node).items)]
    assert records == [
        ("node_drain", "refused", False), ("node_drain", "done", True), ("node_drain", "done", False),
        ("node_drain", "refused", False), ("node_resume", "done", False),
    ]  # fmt: skip
    record = next(one for one in client.actions(node=node).items if one.id == done.action)
    assert (record.reason, record.data["jobs"], record.data["was"]["state"]) == ("new fan", [job], "mixed")


def test_the_command_line_drains_a_node(served, slurm):
    said = served.cli("nodes", "drain", "n-2", "--cluster", "host", "--reason", "noisy fan", "--dry-run")
    assert (said.code, said.out) == (0, "node n-2 would be drained\n")
    assert served.cli("nodes", "drain", "n-2", "--reason", "noisy fan", "-C", "host").code == 0
    rows = list(csv.DictReader(io.StringIO(served.cli("nodes", "--cluster", "host", "--format", "csv").out)))
    assert [(row["slurm"], row["reason"].endswith(": noisy fan")) for row in rows if row["name"] == "n-2"] == [
        ("drained", True)
    ]
    given = served.cli("nodes", "resume", "n-2", "-C", "host")
    assert given.code == 0 and "node n-2 given back\n  it was drained: " in given.out
    again = served.cli("nodes", "resume", "n-2", "-C", "host")
    assert again.code == 1 and "[node_in_service]" in again.err
    assert served.cli("nodes", "drain", "n-2", "-C", "host").code == 2

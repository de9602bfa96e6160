"""Identity of a launch, from recorded environments."""

import pytest

from stepward.launch.plan import Options, make_plan, spans_hosts
from stepward.model.identity import derived_run_id
from stepward.orchestrators.protocol import Ancestor, ProcFacts

FACTS = ProcFacts(host="n1", boot="b00t", pid=10, start=5)
STEP = {
    "SLURM_JOB_ID": "42",
    "SLURM_CLUSTER_NAME": "lab",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "2",
    "SLURMD_NODENAME": "n07",
}


def _plan(environ, **options):
    return make_plan(Options(command=["train"], **options), environ, FACTS)


def test_a_run_that_nothing_names_is_random_and_exported():
    first, second = _plan({}), _plan({})
    assert first.run != second.run
    assert first.attempt != second.attempt
    environ = first.child_environ(0, 0, port=1)
    assert environ["STEPWARD_RUN"] == first.run
    assert environ["STEPWARD_WRAPPER"] == f"b00t:10:5:{first.run}"
    assert "RANK" not in environ, "without --ranks the command's own launcher decides"


def test_a_key_means_the_same_run_and_the_option_outranks_the_variable():
    assert _plan({}, run="night", project="llm").run == derived_run_id("llm", "night")
    assert _plan({"STEPWARD_RUN": "other"}, run="night").run == derived_run_id("default", "night")
    assert _plan({"STEPWARD_RUN": "other"}).run == derived_run_id("default", "other")


def test_wrappers_of_one_job_step_agree_on_run_and_attempt():
    one, two = _plan(STEP), _plan(STEP | {"SLURM_PROCID": "0", "SLURMD_NODENAME": "n08"})
    assert (one.run, one.attempt_key(0)) == (two.run, two.attempt_key(0))
    assert one.run == derived_run_id("default", "slurm:lab:42")
    assert one.node == "n07"
    assert one.job is not None
    requeued = _plan(STEP | {"SLURM_RESTART_COUNT": "1"})
    assert requeued.run == one.run
    assert requeued.attempt_key(0) != one.attempt_key(0)


def test_each_wrapper_in_a_batch_script_is_a_launch_of_its_own():
    batch = {name: value for name, value in STEP.items() if name not in ("SLURM_STEP_ID", "SLURM_PROCID")}
    one, two = _plan(batch), _plan(batch)
    assert one.run == two.run
    assert one.attempt_key(0) != two.attempt_key(0)
    assert one.attempt.startswith("slurm.0/")


def test_restarts_have_their_own_attempt_keys():
    plan = _plan({})
    assert plan.attempt_key(1) == f"{plan.attempt}.1"
    assert plan.child_environ(0, 1, port=1)["STEPWARD_ATTEMPT"] == plan.attempt_key(1)


def test_a_task_of_a_step_is_not_taken_for_a_rank():
    assert _plan(STEP).rank_of(0) is None, "torchrun may be below"
    assert _plan({"RANK": "3"}).rank_of(0) == 3
    assert _plan(STEP, ranks=2).rank_of(1) == 1


def test_ranks_get_the_variables_of_a_launcher():
    environ = _plan({"RANK": "9"}, ranks=2).child_environ(1, 0, port=4321)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert [environ[name] for name in names] == ["1", "1", "2", "2", "127.0.0.1", "4321"]


def test_a_project_that_no_server_takes_is_said_and_the_command_starts_in_another(capfd):
    plan = _plan({}, project="x" * 201)
    assert plan.project == "default"
    assert "bad_project_name" in capfd.readouterr().err


@pytest.mark.parametrize("server", ["no url", "ftp://x"])
def test_bad_settings_are_said_and_left(monkeypatch, capfd, server):
    monkeypatch.setenv("STEPWARD_SERVER", server)
    plan = _plan({"STEPWARD_DIR": "/tmp/x", "STEPWARD_PROJECT": "llm"})
    assert (plan.settings.server, plan.settings.spool, plan.project) == (None, "/tmp/x", "llm")


@pytest.mark.parametrize(
    ("command", "spans"),
    [
        ("torchrun --nnodes=2 train.py", True),
        ("torchrun --nnodes 1:4 train.py", True),
        ("torchrun --nnodes=1 train.py", False),
        ("torchrun --nnodes", False),
        ("python train.py", False),
    ],
)
def test_a_launch_over_several_hosts_is_known_by_its_command(command, spans):
    assert spans_hosts(command.split()) is spans


def test_wrappers_on_hosts_without_a_scheduler_agree_by_the_variable():
    one, two = (_plan({"STEPWARD_ATTEMPT": "monday"}, run="night") for _ in range(2))
    assert one.attempt_key(0) == two.attempt_key(0)


def _below(outer, *, number=0, restart=0, **changed):
    """A plan made in a process that ``outer`` started."""
    facts = {"host": "n1", "boot": "b00t", "pid": 20, "start": 9, "ancestors": (Ancestor(15, 7), Ancestor(10, 5))}
    options = {name: changed.pop(name) for name in ("run", "ranks", "restarts", "project") if name in changed}
    environ = outer.child_environ(number, restart, port=1) | changed.pop("environ", {})
    return make_plan(Options(command=["train"], **options), environ, ProcFacts(**{**facts, **changed}))


def test_a_wrapper_below_another_one_joins_its_attempt():
    outer = _plan({})
    inner = _below(outer, restart=1)
    assert (inner.run, inner.attempt_key(0)) == (outer.run, outer.attempt_key(1))
    assert inner.adds_nothing
    ranks = _below(outer, ranks=2)
    assert (ranks.attempt_key(0), ranks.adds_nothing, ranks.keeps_output(0)) == (outer.attempt_key(0), False, False)
    again = _below(outer, restarts=1)
    assert again.attempt_key(1) == f"{outer.attempt_key(0)}/run.1"
    assert again.keeps_output(1)


def test_a_wrapper_of_another_run_is_no_outer_one():
    outer = _plan({})
    for other in (_below(outer, run="night"), _below(outer, environ={"STEPWARD_RUN": "night"})):
        assert (other.run, other.adds_nothing) == (derived_run_id("default", "night"), False)
        assert other.attempt_key(0) != outer.attempt_key(0)
    same = _below(_plan({}, run="night"), run="night")
    assert same.adds_nothing


def test_a_wrapper_on_another_node_shares_the_attempt_and_keeps_what_it_sees():
    outer = _plan({})
    inner = _below(outer, boot="0ther")
    assert (inner.attempt_key(0), inner.adds_nothing, inner.keeps_output(0)) == (outer.attempt_key(0), False, True)


def test_variables_of_a_wrapper_that_has_gone_make_no_outer_one():
    outer = _plan({})
    inner = _below(outer, ancestors=(Ancestor(1, 1),))
    assert not inner.adds_nothing
    assert inner.attempt_key(0) != outer.attempt_key(0)


def test_the_run_stays_in_the_project_of_the_outer_wrapper(capfd):
    inner = _below(_plan({}, project="llm"), project="other")
    assert (inner.project, inner.settings.project) == ("llm", "llm")
    assert "stays in project llm" in capfd.readouterr().err

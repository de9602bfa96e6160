"""Identity on recorded environments: sbatch, srun, torchrun, mpirun, JAX, a shell, and their nestings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.model.identity import RUN_ID, derived_run_id
from stepward.orchestrators import identity as who
from stepward.orchestrators.protocol import Ancestor, ProcFacts

BOOT = "0b1f8c1e-5f0c-4c8c-9a3e-2d8a6f1f7a11"


def facts(host="n1", pid=500, parent=400, boot=BOOT, rank=None):
    return ProcFacts(
        host=host, boot=boot, pid=pid, start=pid * 10, ancestors=(Ancestor(parent, parent * 10, rank), Ancestor(1, 1))
    )


def slurm(node, procid, restart=0, **more):
    """Variables of a task of ``srun -N2 --ntasks-per-node=1`` inside an sbatch job, as slurmstepd sets them."""
    env = {
        "SLURM_CLUSTER_NAME": "lab",
        "SLURM_JOB_ID": "42",
        "SLURM_JOBID": "42",
        "SLURM_JOB_NAME": "pretrain",
        "SLURM_JOB_PARTITION": "main",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": str(procid),
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": str(procid),
        "SLURMD_NODENAME": node,
    }
    if restart:
        env["SLURM_RESTART_COUNT"] = str(restart)
    return {**env, **more}


def torchrun(rank, local, node, restart=0, run_id="none", **more):
    """Variables that torchrun adds for one of 2 nodes x 4 ranks."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "4",
        "WORLD_SIZE": "8",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": str(restart),
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_RUN_ID": run_id,
        **more,
    }


def identify(env, proc=None, **more):
    return who.identify(env, proc or facts(), project="llm", **more)


def test_sbatch_srun_wrapper_torchrun_requeued_once_is_one_run_two_attempts_eight_ranks():
    seen = set()
    for restart in (0, 1):
        for node, name in enumerate(("n1", "n2")):
            outside = slurm(name, node, restart)
            wrapper = identify(outside, facts(name))
            exported = {"STEPWARD_RUN": wrapper.key, "STEPWARD_ATTEMPT": who.outer_attempt(outside)}
            for local in range(4):
                env = {**outside, **exported, **torchrun(node * 4 + local, local, node)}
                me = identify(env, facts(name, pid=600 + local))
                assert not me.alone
                assert (me.run, me.node, me.local_rank, me.world) == (wrapper.run, name, local, 8)
                assert me.attempt == exported["STEPWARD_ATTEMPT"]
                seen.add((me.run, me.attempt, me.rank))
    assert {run for run, _, _ in seen} == {derived_run_id("llm", "slurm:lab:42")}
    assert {attempt for _, attempt, _ in seen} == {"slurm.0/step.0", "slurm.1/step.0"}
    assert len(seen) == 16


def test_sdk_alone_below_srun_and_torchrun_needs_no_wrapper():
    ranks = [
        identify({**slurm(name, node), **torchrun(node * 4 + local, local, node)}, facts(name))
        for node, name in enumerate(("n1", "n2"))
        for local in range(4)
    ]
    assert {(me.run, me.attempt) for me in ranks} == {(derived_run_id("llm", "slurm:lab:42"), "slurm.0")}
    assert [me.rank for me in ranks] == list(range(8))


def test_srun_python_directly_counts_tasks_and_tells_steps_apart():
    first = [identify(slurm(f"n{i + 1}", i)) for i in range(2)]
    assert [me.rank for me in first] == [0, 1]
    assert {me.attempt for me in first} == {"slurm.0/step.0"}
    assert first[0].world == 2
    again = identify(slurm("n1", 0, SLURM_STEP_ID="1"))
    assert (again.run, again.attempt) == (first[0].run, "slurm.0/step.1")


def test_array_tasks_are_runs_of_their_own():
    env = slurm("n1", 0, SLURM_ARRAY_JOB_ID="40", SLURM_ARRAY_TASK_ID="3")
    assert identify(env).key == "slurm:lab:40_3"
    assert identify({**env, "SLURM_ARRAY_TASK_ID": "4", "SLURM_JOB_ID": "44"}).run != identify(env).run


def test_batch_script_without_srun_has_no_step_and_rank_0():
    env = slurm("n1", 0, SLURM_STEP_ID="4294967291")
    assert (identify(env).attempt, identify(env).rank) == ("slurm.0", 0)


def test_mpirun_inside_a_job_outranks_the_daemons_task_number():
    env = slurm("n2", 1, OMPI_COMM_WORLD_RANK="5", OMPI_COMM_WORLD_LOCAL_RANK="1", OMPI_COMM_WORLD_SIZE="8")
    me = identify(env)
    assert (me.rank, me.local_rank, me.world) == (5, 1, 8)


def test_an_explicit_run_outranks_the_scheduler_and_the_environment_outranks_the_argument():
    run = "run_" + "a" * 26
    assert identify(slurm("n1", 0), run=run).run == run
    assert identify({**slurm("n1", 0), "STEPWARD_RUN": "mine"}, run=run).key == "mine"
    assert identify({}, run="mine").run == derived_run_id("llm", "mine")


def test_torchrun_on_one_host_without_an_id_is_named_by_its_process():
    env = [torchrun(rank, rank, 0, GROUP_WORLD_SIZE="1") for rank in range(4)]
    ranks = [identify(e, facts(pid=500 + i)) for i, e in enumerate(env)]
    assert {me.key for me in ranks} == {f"torchrun:{BOOT}:400:4000"}
    assert len({me.attempt for me in ranks}) == 1
    assert identify(env[0], facts(parent=401)).run != ranks[0].run


def test_a_shell_between_torchrun_and_the_rank_is_looked_through():
    env = torchrun(2, 2, 0, GROUP_WORLD_SIZE="1")
    chain = (Ancestor(450, 4500, "2"), Ancestor(400, 4000, None))
    me = identify(env, ProcFacts(host="n1", boot=BOOT, pid=500, start=5000, ancestors=chain))
    assert me.key == f"torchrun:{BOOT}:400:4000"


def test_an_elastic_restart_is_the_next_attempt_of_the_same_run():
    first = identify(torchrun(0, 0, 0, run_id="job7"))
    second = identify(torchrun(0, 0, 0, restart=1, run_id="job7"))
    assert first.key == "torchelastic:job7@n1:29500"
    assert first.run == second.run
    assert second.attempt == first.attempt + "/torchelastic.1"


def test_torch_on_several_hosts_without_an_id_has_to_ask_rank_0():
    me = identify(torchrun(5, 1, 1))
    assert (me.key, me.alone, me.rank) == (None, True, 5)


def test_jax_processes_without_a_launcher_have_to_ask_rank_0():
    env = {"JAX_COORDINATOR_ADDRESS": "n1:1234", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1"}
    me = identify(env)
    assert (me.alone, me.rank, me.world) == (True, 1, 2)


def test_when_nobody_answers_the_ranks_of_one_host_share_a_run():
    env = {"JAX_COORDINATOR_ADDRESS": "n1:1234", "JAX_NUM_PROCESSES": "2"}
    ranks = [
        who.host_run(identify(e, f), e, f, project="llm")
        for e, f in ((({**env, "JAX_PROCESS_ID": str(i)}), facts(pid=500 + i)) for i in range(2))
    ]
    assert len({(me.run, me.attempt) for me in ranks}) == 1
    assert not ranks[0].alone


def test_pmix_namespace_names_an_mpi_launch():
    env = {"PMIX_NAMESPACE": "prterun-n1-77@1", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
    me = identify(env)
    assert (me.key, me.attempt, me.rank, me.alone) == (
        "mpi:prterun-n1-77@1",
        "mpi:prterun-n1-77@1",
        3,
        False,
    )


def test_kubernetes_owner_and_restart():
    env = {"STEPWARD_K8S_OWNER_UID": "ab-12", "JOBSET_RESTART_ATTEMPT": "2"}
    assert (identify(env).key, identify(env).attempt) == ("k8s:ab-12", "k8s.2")


def test_ranks_started_by_hand_with_an_explicit_run_share_the_attempt_of_their_parent():
    ranks = [identify({"RANK": str(i), "STEPWARD_RUN": "mine"}, facts(pid=500 + i)) for i in range(2)]
    assert len({(me.run, me.attempt) for me in ranks}) == 1
    assert [me.rank for me in ranks] == [0, 1]
    assert not any(me.alone for me in ranks)
    elsewhere = identify({"RANK": "0", "STEPWARD_RUN": "mine"}, facts(parent=401))
    assert elsewhere.attempt != ranks[0].attempt


def test_a_plain_process_is_an_attempt_of_its_own():
    one, two = (identify({"STEPWARD_RUN": "mine"}, facts(pid=pid)) for pid in (500, 501))
    assert (one.run, one.rank, one.alone) == (two.run, 0, False)
    assert one.attempt != two.attempt


def test_nothing_known_is_a_random_run():
    one, two = identify({}), identify({})
    assert one.key is None
    assert RUN_ID.fullmatch(one.run)
    assert one.run != two.run


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "٣", "99999999999"])
def test_a_rank_that_is_no_number_is_no_rank(text):
    assert identify({"RANK": text}).rank == 0


@given(st.dictionaries(st.sampled_from([*slurm("n", 0), *torchrun(0, 0, 0), "JAX_PROCESS_ID"]), st.text(max_size=6)))
def test_any_environment_gives_an_identity(env):
    me = identify(env)
    assert RUN_ID.fullmatch(me.run)
    assert me.attempt
    assert me.rank >= 0

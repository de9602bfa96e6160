"""Each cascade rule on a log made up for it: with the rule's ground, and without."""

import pytest

TIMED_OUT = (
    "[rank{rank}]: [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
    "NumelIn={size}, NumelOut={size}, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
)
STEPS = "".join(f"step {at} loss 2.{at} 1.0 s\n" for at in range(1, 5))
MORE_STEPS = "".join(f"step {at} loss 1.{at} 1.0 s\n" for at in range(5, 9))
MEMORY = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
LOST_PEER = (
    "[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
)
SACCT = "JobID|State|ExitCode|Elapsed|Timelimit|NodeList\n"


def timed_out(*ranks, seq=9, op="ALLREDUCE", size=10):
    return "".join(TIMED_OUT.format(rank=rank, seq=seq, op=op, size=size) for rank in ranks)


def labels(document):
    return [cause.label for cause in document.causes]


def why_not(document):
    return {one.label: one.why for one in document.ruled_out}


def test_an_error_is_a_cause_and_lost_peers_are_its_symptoms(log):
    found = log(STEPS + MEMORY + LOST_PEER)
    assert labels(found) == ["gpu_oom"]
    assert found.outcome == "failed"
    assert found.causes[0].suspects.ranks == [1]
    assert [one.text for one in found.causes[0].secondary] == ["a peer went away"]


def test_the_first_line_may_be_a_symptom(log):
    assert labels(log(LOST_PEER + timed_out(0, 2) + MEMORY)) == ["gpu_oom"]


def test_symptoms_alone_are_no_cause(log):
    found = log(LOST_PEER + timed_out(0, 1, 2))
    assert found.causes == []
    assert found.outcome == "failed"
    first = found.candidates[-1]
    assert (first.label, first.evidence[0].line) == (None, 1)


def test_an_error_behind_which_steps_go_on_is_history(log):
    found = log(STEPS + MEMORY + MORE_STEPS)
    assert found.causes == []
    assert found.outcome == "healthy"
    assert "progress after it" in why_not(found)["gpu_oom"]


def test_steps_of_other_ranks_do_not_acquit_a_rank_that_ended_badly(log):
    other = "".join(f"[rank0]: step {at} loss 1.{at} 1.0 s\n" for at in range(5, 9))
    found = log(STEPS + MEMORY + other + LOST_PEER)
    assert labels(found) == ["gpu_oom"]


def test_a_normal_end_acquits(log):
    found = log(STEPS + MEMORY + "training finished, exit code 0\n")
    assert (found.causes, found.outcome, found.ended) == ([], "healthy", True)


def test_the_scheduler_outranks_the_text(diagnosed):
    text = STEPS + MEMORY
    assert diagnosed({"job.log": text, "scheduler.txt": SACCT + "1|COMPLETED|0:0|01:00:00|02:00:00|a1\n"}).causes == []
    limited = diagnosed({"job.log": STEPS + LOST_PEER, "scheduler.txt": SACCT + "1|TIMEOUT|0:0|02:00:01|02:00:00|a1\n"})
    assert labels(limited) == ["scheduler_limit"]
    assert limited.causes[0].decided_by == "scheduler"


def test_a_step_that_was_cancelled_at_the_end_of_a_completed_job_is_no_failure(diagnosed):
    rows = "1|COMPLETED|0:0|01:00:00|02:00:00|a1\n1.0|COMPLETED|0:0|01:00:00||a1\n1.1|CANCELLED|0:15|01:00:00||a1\n"
    found = diagnosed({"job.log": STEPS, "scheduler.txt": SACCT + rows})
    assert (found.causes, found.outcome) == ([], "healthy")


@pytest.mark.parametrize(
    ("activity", "label"),
    [
        ("[rank0]: Saving checkpoint to /c/step_10, 3.1 of 90 GiB written\n", "checkpoint_stall"),
        ("[rank0]: Tokenizing 120M documents: 31%\n", "timeout_budget"),
        ("[rank0]: running evaluation, 100/4000\n", "timeout_budget"),
    ],
)
def test_a_time_out_while_one_rank_works_waits_for_that_work(log, activity, label):
    found = log(activity + timed_out(1, 2, 3))
    assert labels(found)[:1] == [label]
    assert found.causes[0].suspects.nodes == []


def test_work_that_is_done_is_no_excuse(log):
    assert log("[rank0]: saving checkpoint to /c/step_10 done\n" + timed_out(1, 2, 3)).causes == []


def test_another_collective_on_one_rank_is_a_desync(log):
    found = log(timed_out(0, 1, 3) + timed_out(2, op="BROADCAST"))
    assert labels(found) == ["collective_desync"]
    assert found.causes[0].suspects.ranks == [2]


def test_another_size_on_one_rank_is_a_desync(log):
    assert labels(log(timed_out(0, 1, 3) + timed_out(2, size=7))) == ["collective_desync"]


def test_the_silent_rank_is_the_suspect(log):
    found = log("[rank0] world_size 4\n(Pdb) waiting\n" + timed_out(1, 2, 3))
    assert labels(found) == ["hang_in_user_code"]
    assert found.causes[0].suspects.ranks == [0]


def test_the_start_of_a_hang_is_its_report_less_the_time_out(log):
    found = log("2026-05-06 10:20:00 " + timed_out(1))
    assert [one.text for one in found.events if one.type == "hang"] == [
        "a collective did not complete, since 2026-05-06T10:10:00.000000Z"
    ]


def test_an_unhealthy_task_that_speaks_again_was_alive(log):
    unhealthy = "[task 0] UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): /task:3\n"
    victim = "[task 3] Terminating process because the JAX distributed service detected fatal errors.\n"
    assert labels(log("[task 3] Compiling train_step with global shapes\n" + unhealthy + victim)) == ["timeout_budget"]
    assert "timeout_budget" not in labels(log("[task 3] hello\n" + unhealthy))


def test_a_first_contact_that_fails_is_a_setting_and_a_later_one_a_link(log):
    error = "a1:10:20 [0] NCCL WARN NET/IB : Got completion from peer a2<4471> with error 12, opcode 0, len 0, vendor err 129\n"
    assert labels(log(error)) == ["network_config"]
    later = log(STEPS + error)
    assert labels(later) == ["network_link"]
    assert later.causes[0].suspects.nodes == ["a2"]


def test_a_kill_without_a_witness_is_memory_only_where_nobody_knows_better(diagnosed, tmp_path):
    kill = STEPS + "command terminated with exit code 137\n"
    assert labels(diagnosed({"job.log": kill})) == ["host_oom"]
    found = diagnosed({"job.log": kill, "scheduler.txt": SACCT + "1|FAILED|0:9|00:10:00|01:00:00|a1\n"})
    assert found.causes == []
    assert "no memory kill" in why_not(found)["host_oom"]
    (tmp_path / "case" / "scheduler.txt").unlink()
    sure = diagnosed({"job.log": kill, "kernel.log": "a1 kernel: Out of memory: Killed process 7 (python3)\n"})
    assert sure.causes[0].confidence > 0.8
    assert sure.causes[0].suspects.nodes == ["a1"]


def test_hardware_explains_the_kernel_fault_that_its_rank_saw(diagnosed):
    found = diagnosed(
        {
            "job.log": "[rank5]: RuntimeError: CUDA error: unspecified launch failure\n" + timed_out(1, 2),
            "kernel.log": "h7 kernel: NVRM: Xid (PCI:0000:cb:00): 79, pid=1, name=x, GPU has fallen off the bus.\n",
        }
    )
    assert labels(found) == ["gpu_off_bus"]
    suspects = found.causes[0].suspects
    assert (suspects.nodes, suspects.ranks, suspects.devices) == (["h7"], [5], ["0000:cb:00"])
    assert why_not(found)["cuda_kernel_fault"] == "gpu_off_bus explains it"


def test_cleaning_up_after_a_kill_is_no_fault(diagnosed):
    kernel = "h7 kernel: NVRM: Xid (PCI:0000:cb:00): 45, pid=1, name=x, Ch 00000010\n"
    assert diagnosed({"job.log": STEPS, "kernel.log": kernel}).causes == []


def test_teardown_is_not_a_cancellation(log):
    cancelled = "slurmstepd: error: *** STEP 1.0 ON a1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    assert labels(log(STEPS + MEMORY + cancelled)) == ["gpu_oom"]


def test_the_last_attempt_is_diagnosed_and_lasting_damage_reaches_it(log):
    first = "attempt 1: step 5 loss 2.0 1.0 s\nattempt 1: " + MEMORY
    busy = "attempt 2: OSError: [Errno 98] Address already in use\n"
    found = log(first + busy)
    assert labels(found) == ["resource_conflict"]
    assert [one.label for one in found.episodes] == ["gpu_oom", "resource_conflict"]
    full = "attempt 1: OSError: [Errno 28] No space left on device\n"
    torn = "attempt 2: RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"
    assert labels(log(full + torn)) == ["storage_full"]


def test_nan_counts_while_it_stays(log):
    assert labels(log(STEPS + "step 9 loss nan 1.0 s\nstep 10 loss nan 1.0 s\n")) == ["numerics_nan"]
    assert log(STEPS + "step 9 loss nan 1.0 s\n" + MORE_STEPS).causes == []


def test_compiling_between_steps_is_a_storm_and_compiling_before_them_is_not(log):
    compiling = "Compiling train_step with global shapes and types [f32[{}]]\n"
    storm = "".join(compiling.format(at) + f"step {at} loss 2.0 40.0 s\n" for at in range(5))
    assert labels(log(storm)) == ["recompilation"]
    assert log("".join(compiling.format(at) for at in range(3)) + STEPS).causes == []


def test_what_metrics_deny_is_said(diagnosed):
    found = diagnosed({"job.log": STEPS, "metrics.txt": "no throttle reason on any GPU\n"})
    assert "thermal_power" in why_not(found)


def test_warnings_before_a_pod_started_are_history(diagnosed):
    events = (
        "Name:    ft-1\nStatus:  Running\nNode:    kn-1/10.0.0.1\nEvents:\n"
        "  Warning  FailedScheduling  9m  default-scheduler  0/8 nodes are available: 8 Insufficient nvidia.com/gpu.\n"
    )
    assert diagnosed({"job.log": STEPS, "scheduler.txt": events}).causes == []
    waiting = diagnosed({"scheduler.txt": events.replace("Running", "Pending")})
    assert labels(waiting) == ["unschedulable"]


@pytest.mark.parametrize("head", ["", "[rank2]: ", "gpu-07: "])
def test_an_exception_that_nobody_knows_is_one_of_the_code(log, head):
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 3, in <module>',
        "    saving checkpoint to(x)",
    ]
    found = log("".join(f"{head}{line}\n" for line in [*lines, "app.config.BadWidth: must be positive", "bye"]))
    assert labels(found) == ["user_code_index"]
    assert found.causes[0].evidence[0].line == 4


def test_a_rank_whose_timer_stands_out_is_a_straggler(log):
    table = "".join(f"     rank {rank:2d}: {1600.5 if rank == 3 else 1150.1}\n" for rank in range(4))
    found = log(STEPS + "times across ranks (ms):\n  forward-compute:\n" + table)
    assert labels(found) == ["workload_imbalance"]
    assert found.causes[0].suspects.ranks == [3]


def test_of_ranks_that_report_one_fault_the_first_by_clock_is_the_suspect(log):
    fault = "10:00:0{at}.000 [task {rank}] h{rank} E x.cc:4] CUDA_ERROR_CONTAINED\n"
    found = log("".join(fault.format(at=9 - rank, rank=rank) for rank in (4, 7, 5)))
    assert (found.causes[0].suspects.ranks, found.causes[0].suspects.nodes) == ([7], ["h7"])

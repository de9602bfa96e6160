"""Ranks of torchrun and of JAX, two processes and more: one run, the right ranks, with and without help by name."""

import os
import socket
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.integration


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def write(script, name, source):
    path = script.folder / name
    path.write_text("import os, sys, time\nimport stepward as sw\n" + source)
    return str(path)


def start(script, command, env=None):
    src = os.path.join(os.path.dirname(__file__), "../../../src")
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": src, "OMP_NUM_THREADS": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    script.processes.append(process)
    return process


def join(processes):
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs


def one_attempt(script, ranks):
    (writers,) = script.runs().values()
    assert [w.meta.source.rank for w in writers] == list(range(ranks))
    assert len({w.meta.source.attempt for w in writers}) == 1
    assert [w.value("loss")[-1] for w in writers] == [(1, float(rank)) for rank in range(ranks)]
    assert [w.exit.exit_code for w in writers] == [0] * ranks
    assert [c.ranks for c in writers[0].of("config") if c.ranks is not None][-1] == ranks
    return writers


TORCH = """
import torch.distributed as dist
{before}
dist.init_process_group("gloo")
{after}
for i in range(2):
    with run.step(i):
        dist.barrier()
    run.log({{"loss": float(dist.get_rank())}})
dist.barrier()
run.finish()
dist.destroy_process_group()
"""
FIRST = TORCH.format(before="run = sw.init()", after="")
LATER = TORCH.format(before="", after="run = sw.init()")


def torchrun(python, path, *options):
    return [python, "-m", "torch.distributed.run", "--nproc-per-node=2", *options, path]


def test_torchrun_on_one_host(script, frameworks_python):
    path = write(script, "train.py", FIRST)
    port = free_port()
    join([start(script, torchrun(frameworks_python, path, f"--master-port={port}"))])
    assert one_attempt(script, 2)[0].meta.key.startswith("torchrun:")


@pytest.mark.parametrize("source", [FIRST, LATER], ids=["init-first", "init-later"])
def test_torchrun_2x2_without_an_id_asks_rank_0(script, frameworks_python, source):
    path = write(script, "train.py", source)
    options = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    join([start(script, torchrun(frameworks_python, path, *options, f"--node-rank={node}")) for node in range(2)])
    one_attempt(script, 4)


def test_torchrun_2x2_with_an_id_needs_to_ask_nobody(script, frameworks_python):
    path = write(script, "train.py", FIRST)
    options = ["--nnodes=2", "--rdzv-id=job7", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    nodes = []
    for node in range(2):
        nodes.append(start(script, torchrun(frameworks_python, path, *options, "--local-addr=127.0.0.1")))
        time.sleep(0.5 * (1 - node))
    join(nodes)
    assert one_attempt(script, 4)[0].meta.key.startswith("torchelastic:job7@")


JAX = """
import jax
{before}
jax.distributed.initialize(os.environ["COORDINATOR"], 2, int(os.environ["NUMBER"]))
{after}
for i in range(2):
    run.log({{"loss": jax.numpy.float32(jax.process_index())}}, step=i)
run.finish()
jax.distributed.shutdown()
"""


@pytest.mark.parametrize(
    ("before", "after"), [("run = sw.init()", ""), ("", "run = sw.init()")], ids=["init-first", "init-later"]
)
@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
def test_two_jax_processes(script, before, after, named):
    pytest.importorskip("jax", reason="jax is not installed")
    path = write(script, "train.py", JAX.format(before=before, after=after))
    env = {"COORDINATOR": f"127.0.0.1:{free_port()}", "JAX_PLATFORMS": "cpu"}
    if named:
        env |= {"STEPWARD_RUN": "mine", "STEPWARD_ATTEMPT": "a"}  # as under one `stepward run`
    join([start(script, [sys.executable, path], {**env, "NUMBER": str(number)}) for number in range(2)])
    writers = one_attempt(script, 2)
    assert writers[1].rows, "device values were journaled"

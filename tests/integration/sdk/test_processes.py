"""Forks, spawned children, second runs, late ranks: who writes for which run."""

import os
import textwrap
import time

import pytest

from stepward.collect.sampler import sample_step
from stepward.model.identity import derived_run_id, ulid
from stepward.model.states import State, verdict

pytestmark = pytest.mark.integration


def test_a_run_leaves_its_story(script):
    source = """
    run = sw.init(project='llm', name='n', config={'lr': 0.1, 'api_key': 'k'}, tags=['a'], notes='why', kind='rl')
    for i, batch in enumerate(run.data(range(3))):
        with run.step(i):
            with run.phase('forward'):
                time.sleep(0.002)
                with run.phase('collective'): time.sleep(0.002)
        run.log({'loss': 1.0 / (i + 1)})
    with run.phase('evaluation'): time.sleep(0.02)
    run.config['epochs'] = 3
    run.event('note', 'changed the mixture', share=0.5)
    with run.checkpoint(2, '/ckpt/2', durable=False): pass
    run.checkpoint_durable(2)
    """
    script.run(source, code=0)
    (writer,) = script.written()
    first = writer.of("config")[0]
    assert (first.name, first.kind, first.tags, first.notes) == ("n", "rl", ["a"], "why")
    assert writer.tree("user") == {"lr": 0.1, "api_key": "***", "epochs": 3}
    assert writer.value("loss") == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    assert [step for step, _, _ in writer.steps] == [0, 1, 2]
    for _, duration, phases in writer.steps:
        assert set(phases) == {"data_wait", "forward", "collective"}
        assert sum(phases.values()) <= duration
        assert 0.0015 < phases["forward"] < duration - 0.0015
    assert [e.data["name"] for e in writer.events("phase")] == ["evaluation"]
    assert [(e.title, e.data) for e in writer.events("note")] == [("changed the mixture", {"share": 0.5})]
    assert [(e.step, e.data["path"]) for e in writer.events("checkpoint")] == [(2, "/ckpt/2")]
    assert [e.step for e in writer.events("checkpoint_durable")] == [2]
    last = writer.of("status")[-1]
    assert (last.step, last.pending, last.dropped) == (2, 0, 0)
    assert writer.meta.project == "llm"


def test_trees_are_collected_in_the_background(script):
    source = """
    run = sw.init()
    end = time.time() + 120
    while time.time() < end and not run._journal._series: time.sleep(0.05)
    """
    secret = ulid()  # made here, since whatever stands in a file may be in the difference
    script.run(source, code=0, env={"XLA_FLAGS": "--x", "WANDB_API_KEY": secret, "NCCL_DEBUG": "INFO"})
    (writer,) = script.written()
    software, system = writer.tree("software"), writer.tree("system")
    assert software["flags"] == {"NCCL_DEBUG": "INFO", "XLA_FLAGS": "--x"} | {
        k: v for k, v in software["flags"].items() if k not in ("NCCL_DEBUG", "XLA_FLAGS")
    }
    assert software["packages"]["msgspec"]
    assert software["entry"].endswith("train0.py")
    assert system[os.uname().nodename]["cpu"]["cores"] >= 1
    assert secret not in str(writer.payloads)
    step = next(step for step, row in writer.rows if any(metric.startswith("system/") for metric in row))
    assert abs(step - sample_step(time.time_ns() // 1000)) < 10  # as the wrapper counts them: periods since the epoch


def test_a_wrapper_samples_instead(script):
    source = "run = sw.init(); time.sleep(0.5)"
    script.run(source, code=0, env={"STEPWARD_WRAPPER": "1", "STEPWARD_RUN": "w", "STEPWARD_ATTEMPT": "a1"})
    (writer,) = script.written()
    assert writer.rows == []
    assert writer.meta.source.attempt == "a1"


def test_fork_makes_another_writer_and_only_the_parent_ends_the_run(script):
    source = """
    run = sw.init()
    run.log({'loss': 0.0}, step=0)
    pid = os.fork()
    if pid == 0:
        run.log({'worker': 1.0}, step=1)
        sys.exit(5)
    os.waitpid(pid, 0)
    run.log({'loss': 1.0}, step=1)
    """
    script.run(source, code=0)
    parent, child = script.written()
    assert parent.value("loss") == [(0, 0.0), (1, 1.0)]
    assert child.value("worker") == [(1, 1.0)]
    assert child.exit is None
    assert parent.exit.exit_code == 0
    assert child.meta.source.rank == parent.meta.source.rank == 0
    assert child.meta.source.attempt == parent.meta.source.attempt


def test_worker_processes_that_never_log_leave_nothing(script):
    source = """
    import multiprocessing as mp
    def work(x): return x + 1
    if __name__ == '__main__':
        run = sw.init()
        for method in ('fork', 'spawn'):
            with mp.get_context(method).Pool(2) as pool:
                assert pool.map(work, [1, 2]) == [2, 3]
    """
    script.run(source, code=0)
    (writer,) = script.written()
    assert writer.exit.exit_code == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(
    ("end", "state"), [("pass", State.FINISHED), ("sys.exit(3)", State.FAILED), ("1/0", State.FAILED)]
)
def test_ranks_started_by_multiprocessing_say_their_own_end(script, method, end, state):
    source = f"""
    import multiprocessing as mp
    def train(rank):
        os.environ['RANK'] = str(rank)
        run = sw.init(run='mine')
        run.log({{'loss': float(rank)}}, step=0)
        {end}
    if __name__ == '__main__':
        ranks = [mp.get_context({method!r}).Process(target=train, args=(i,)) for i in range(2)]
        [r.start() for r in ranks]; [r.join() for r in ranks]
    """
    script.run(source, code=0)
    runs = script.runs()
    assert list(runs) == [derived_run_id("default", "mine")]
    zero, one = runs[derived_run_id("default", "mine")]
    assert [w.meta.source.rank for w in (zero, one)] == [0, 1]
    assert zero.meta.source.attempt == one.meta.source.attempt
    assert {verdict(w.exit).state for w in (zero, one)} == {state}


def test_a_second_init_finishes_the_first_run(script):
    source = """
    first = sw.init(run='a'); sw.log({'x': 1.0})
    second = sw.init(run='a'); sw.log({'x': 2.0})
    assert first.finished and sw.current_run() is second
    first.log({'x': 9.0}); first.log({'x': 9.0})
    """
    _, _, err = script.run(source, code=0)
    one, two = script.written()
    assert (one.exit.exit_code, two.exit.exit_code) == (0, 0)
    assert one.value("x") == [(0, 1.0)]
    assert one.meta.source.attempt != two.meta.source.attempt
    assert err.count("after finish()") == 1


def test_rank_is_read_again_late(script):
    source = """
    run = sw.init(run='mine')
    os.environ['RANK'] = '3'
    run._presence.look()
    run.log({'loss': 1.0}, step=0)
    """
    script.run(source, code=0)
    (writer,) = script.written()
    assert writer.meta.source.rank == 3
    assert writer.exit.rank == 3


def test_ranks_that_cannot_agree_are_one_run_a_host_and_told_so(script):
    env = {"JAX_COORDINATOR_ADDRESS": "127.0.0.1:1", "JAX_NUM_PROCESSES": "2"}
    source = "run = sw.init(); run.log({'loss': 1.0}, step=0)"
    messages = [script.run(source, code=0, env={**env, "JAX_PROCESS_ID": str(i)})[2] for i in range(2)]
    assert all("--run" in message for message in messages)
    assert [w.meta.source.rank for w in script.written()] == [0, 1]


def test_captured_output_goes_both_ways(script):
    source = """
    run = sw.init(capture_output=True)
    print('to out'); print('to err', file=sys.stderr); sys.stdout.write('é no newline')
    sys.exit(3)
    """
    _, out, err = script.run(source, code=3)
    (writer,) = script.written()
    assert out == "to out\né no newline"
    assert "to err" in err
    chunks = [chunk for logs in writer.of("logs") for chunk in logs.chunks]
    kept = {name: b"".join(c.data for c in chunks if c.stream == name).decode() for name in ("stdout", "stderr")}
    assert kept["stdout"] == out
    assert "to err\n" in kept["stderr"]
    assert "é no newline" in writer.exit.tail


def test_wrong_use_never_raises_and_is_said_once(script):
    source = """
    sw.log({'early': 1}); sw.log({'early': 1})
    with sw.step(0), sw.phase('x'): pass
    run = sw.init()
    for bad in ([1], None, 'x'): run.log(bad)
    run.log({'a': object(), 'b': 1}, step='seven')
    run.log({'b': 2}, step=2.0)
    run.config['x'] = object()
    run.event(3, None, x=object())
    with run.step('x'): pass
    run.finish(); run.finish()
    """
    _, _, err = script.run(source, code=0)
    (writer,) = script.written()
    assert writer.value("b")[-1] == (2, 2.0)
    assert err.count("without a run") == 1
    assert err.count("log() takes a mapping") == 1


EVIL = """
class Evil:
    def fail(self, *_): raise ValueError('evil')
    __index__ = __int__ = __str__ = __repr__ = __iter__ = __len__ = __bool__ = __float__ = __fspath__ = fail
evil = Evil()
"""


def test_no_object_of_a_script_makes_a_call_raise(script):
    source = """
        run.log({'loss': evil, 'ok': 1.0}, step=evil); run.log({evil: 1.0}); run.log(evil)
        with run.step(evil), run.phase(evil), run.checkpoint(evil, evil): pass
        run.event(evil, evil, data=evil); run.checkpoint_durable(evil)
        run.config['c'] = evil; run.config |= {'d': 4}
        run.finish(evil)
    """
    script.run(EVIL + "run = sw.init(config={'a': evil, 'b': 3})\n" + textwrap.dedent(source), code=0)
    (writer,) = script.written()
    assert writer.value("ok") == [(0, 1.0)]
    assert (writer.tree("user")["b"], writer.tree("user")["d"]) == (3, 4)
    assert writer.exit.exit_code == 1


def test_a_phase_that_no_frame_can_carry_does_not_cost_the_step_its_row(script):
    source = """
        run = sw.init()
        with run.step(1):
            for name in ('x' * 2000, '\\ud800', '', 'é' * 2000, None, 'fine'):
                with run.phase(name): pass
        run.finish()
    """
    script.run(source, code=0)
    (writer,) = script.written()
    ((step, _, phases),) = writer.steps
    assert (step, len(phases), "fine" in phases) == (1, 6, True)
    assert writer.of("status")[-1].dropped == 0


@pytest.mark.parametrize("step", [2**63, 2**64, -(2**70), 1e300])
def test_a_step_beyond_int64_silences_nothing(script, step):
    source = f"""
        run = sw.init()
        with run.step({step}): run.log({{'loss': 1.0}}, step={step})
        with run.checkpoint({step}): pass
        run.event('mark')
        run.finish()
    """
    script.run(source, code=0)
    (writer,) = script.written()
    assert writer.value("loss") == []  # refused and counted: at the edge it would lie
    assert {e.type: e.step for e in writer.events()}.keys() == {"checkpoint", "checkpoint_durable", "mark"}
    assert writer.exit.exit_code == 0


@pytest.mark.parametrize(
    "argument",
    [
        "tags=5",
        "tags=[None]",
        "name=5",
        "project=''",
        "project='\\ud800'",
        "name='\\ud800'",
        "project='é' * 34",
        "kind=[]",
    ],
)
def test_init_refuses_what_no_server_would_take(script, argument):
    _, _, said = script.run(f"sw.init({argument})", code=1)
    assert "UsageError" in said.strip().splitlines()[-1]
    assert not script.runs()


def test_strict_mode_raises_for_wrong_use(script):
    source = """
    run = sw.init(strict=True)
    for call in (lambda: run.log([1]), lambda: run.log({}, step='x')):
        try: call()
        except sw.UsageError as error: print(error.code)
    for wrong in ({'kind': 'other'}, {'tags': [1]}, {'name': ''}, {'run': 3}):
        try: sw.init(**wrong)
        except sw.UsageError as error: print(error.code)
    """
    _, out, _ = script.run(source, code=0)
    assert out.split() == ["bad_values", "bad_step", *["bad_argument"] * 4]


def test_a_spool_that_cannot_be_written_does_not_harm_the_script(script):
    source = "run = sw.init()\nfor i in range(10): run.log({'a': 1.0})\nprint('done')"
    _, out, _ = script.run(source, code=0, env={"STEPWARD_DIR": "/proc/nowhere"})
    assert out.strip() == "done"

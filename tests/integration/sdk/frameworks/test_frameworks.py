"""The callbacks in real trainings: Trainer, Lightning under both names, JAX; unmodified but for the callback."""

import sys

import pytest

pytestmark = pytest.mark.integration

OFFLINE = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def test_hf_trainer(script, frameworks_python, tmp_path):
    source = f"""
    import torch
    from transformers import Trainer, TrainingArguments
    from transformers import GPT2Config, GPT2LMHeadModel
    from stepward.sdk.frameworks.hf import StepwardCallback

    data = [{{"input_ids": torch.arange(8), "labels": torch.arange(8)}}] * 16
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8))
    args = TrainingArguments(
        {str(tmp_path / "out")!r}, max_steps=4, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        logging_steps=1, eval_strategy="steps", eval_steps=2, save_steps=2, report_to=[], use_cpu=True,
    )
    callback = StepwardCallback(project="llm", name="gpt")
    Trainer(model, args, train_dataset=data, eval_dataset=data, callbacks=[callback]).train()
    """
    script.run(source, code=0, python=frameworks_python, env=OFFLINE)
    (writer,) = script.written()
    assert [step for step, _, _ in writer.steps] == [1, 2, 3, 4]
    assert all("optimizer" in phases for _, _, phases in writer.steps)
    assert [step for step, _ in writer.value("loss")] == [1, 2, 3, 4]
    assert [step for step, _ in writer.value("eval_loss")] == [2, 4]
    saved = [(e.step, e.data["path"].split("/")[-1]) for e in writer.events("checkpoint")]
    assert saved == [(2, "checkpoint-2"), (4, "checkpoint-4")]
    assert all(e.data["blocking_s"] > 0 for e in writer.events("checkpoint"))
    assert writer.tree("user")["trainer"]["max_steps"] == 4
    assert writer.tree("user")["model"]["n_embd"] == 8
    assert (writer.of("config")[0].name, writer.exit.exit_code) == ("gpt", 0)
    assert writer.tree("software")["frameworks"]["torch"]["version"].startswith("2.13")


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(script, frameworks_python, tmp_path, package):
    source = f"""
    import torch
    import {package} as pl
    from stepward.sdk.frameworks.lightning import StepwardCallback, StepwardLogger

    class Module(pl.LightningModule):
        def __init__(self, width=4):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, 1)
        def training_step(self, batch, index):
            loss = self.layer(batch).square().mean()
            self.log("loss", loss)
            return loss
        def validation_step(self, batch, index):
            self.log("val_loss", self.layer(batch).square().mean())
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    loader = torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=2)
    trainer = pl.Trainer(
        max_epochs=1, accumulate_grad_batches=2, log_every_n_steps=1, accelerator="cpu", enable_progress_bar=False,
        default_root_dir={str(tmp_path / "out")!r},
        logger=StepwardLogger(project="llm", name="pl"), callbacks=[StepwardCallback()],
    )
    trainer.fit(Module(), loader, loader)
    """
    if package == "pytorch_lightning":
        probe = script.run("import pytorch_lightning", python=frameworks_python, env=OFFLINE)[0]
        if probe.returncode:
            pytest.skip("pytorch_lightning (the package's second name) is not installed")
    script.run(source, code=0, python=frameworks_python, env=OFFLINE)
    (writer,) = script.written()
    assert [step for step, _, _ in writer.steps] == [0, 1, 2, 3]
    assert all({"forward", "backward", "optimizer"} <= set(phases) for _, _, phases in writer.steps)
    assert len(writer.value("loss")) == 4
    assert len(writer.value("val_loss")) == 1
    assert writer.tree("user")["width"] == 4
    assert len(writer.events("checkpoint")) == 1
    assert writer.events("checkpoint")[0].data["path"].endswith(".ckpt")
    assert (writer.meta.project, writer.exit.exit_code) == ("llm", 0)


def test_jax_loop_tells_its_compilations(script):
    pytest.importorskip("jax", reason="jax is not installed")
    source = """
    import jax, jax.numpy as jnp
    run = sw.init()
    @jax.jit
    def train(x): return (jnp.sin(x) @ jnp.cos(x.T)).sum()
    for i in range(3):
        with run.step(i):
            with run.phase("forward"):
                loss = train(jnp.ones((64 if i < 2 else 32, 8)))
        run.log({"loss": loss})
    """
    script.run(source, code=0, python=sys.executable, env={"JAX_PLATFORMS": "cpu"})
    (writer,) = script.written()
    compiled = [phases.get("compile", 0.0) for _, _, phases in writer.steps]
    assert compiled[0] > 0 and compiled[2] > 0
    assert compiled[1] < min(compiled[0], compiled[2])
    assert all(sum(phases.values()) <= duration * 1.001 for _, duration, phases in writer.steps)
    assert len(writer.value("loss")) == 3
    assert writer.tree("software")["frameworks"]["jax"]["version"]


def test_notebook_cells(script, frameworks_python):
    source = """
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance()
    shell.run_cell("import stepward as sw; run = sw.init(name='first'); run.log({'x': 1.0})")
    shell.run_cell("1 / 0")
    shell.run_cell("run = sw.init(name='second'); html = run._repr_html_()")
    assert 'second' in shell.user_ns['html']
    shell.run_cell("raise KeyboardInterrupt")
    shell.run_cell("run = sw.init(name='third')")
    shell.run_cell("raise ValueError('mended later')")
    shell.run_cell("run.log({'x': 2.0})")
    """
    _, out, err = script.run(source, python=frameworks_python)
    if "No module named 'IPython'" in err:
        pytest.skip("IPython is not installed")
    told = {}
    for writers in script.runs().values():
        (writer,) = writers
        told[writer.of("config")[0].name] = writer.exit
    assert told["first"].exception == "ZeroDivisionError: division by zero", (out, err)
    assert told["second"].signal == "SIGINT"
    assert (told["third"].exit_code, told["third"].exception) == (0, None)

"""``StepwardLogger`` and ``StepwardCallback`` for Lightning (``lightning`` or ``pytorch_lightning``, whichever is loaded).

``Trainer(logger=StepwardLogger(), callbacks=[StepwardCallback()])``: the logger keeps what ``self.log`` gives, the
callback times steps and phases ``forward``, ``backward``, ``optimizer``, ``evaluation``. Steps are the optimizer's;
Lightning has no hook around the wait for data. The run ends with the process.
"""

import sys
import time
from typing import Any

from stepward.model.words import Phase
from stepward.sdk import session
from stepward.sdk.run import Run
from stepward.sdk.steps import PhaseScope, Step

if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning import Callback
    from pytorch_lightning.loggers import Logger
else:
    from lightning.pytorch import Callback
    from lightning.pytorch.loggers import Logger

_saving_since: int | None = None


class StepwardLogger(Logger):  # type: ignore[misc]
    """Keeps metrics, hyper-parameters and checkpoints.

    Args:
        init: arguments of ``stepward.init`` for the run that this begins where there is none.
    """

    def __init__(self, **init: Any) -> None:
        super().__init__()
        self._init = init

    @property
    def experiment(self) -> Run:
        """The run."""
        return session.current_run() or session.init(**self._init)

    @property
    def name(self) -> str | None:
        """Project of the run; Lightning names folders by it."""
        return self.experiment.project

    @property
    def version(self) -> str:
        """Id of the run."""
        return self.experiment.id

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        """Keep metrics."""
        self.experiment.log(metrics, step)

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Keep hyper-parameters."""
        self.experiment.config.update(params)

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """A checkpoint is written."""
        now, run = time.time_ns() // 1000, self.experiment
        path = checkpoint_callback.last_model_path or checkpoint_callback.best_model_path
        step = getattr(checkpoint_callback, "_last_global_step_saved", None)
        if path and run.rank == 0:
            run.checkpointed(step or 0, str(path), _saving_since or now, now)


class StepwardCallback(Callback):  # type: ignore[misc]
    """Times steps and phases."""

    def __init__(self) -> None:
        self._step: Step | None = None
        self._global_step = -1
        self._phases: list[PhaseScope] = []

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        """A batch begins: a step, unless gradients of the open one are still being gathered."""
        run = session.current_run() or session.init()
        if self._step is None:
            self._global_step = trainer.global_step
            self._step = run.step(trainer.global_step)
            self._step.__enter__()
        self._enter(Phase.FORWARD)

    def on_before_backward(self, trainer: Any, module: Any, loss: Any) -> None:
        """Forward is through."""
        self._enter(Phase.BACKWARD)

    def on_after_backward(self, trainer: Any, module: Any) -> None:
        """Backward is through."""
        self._leave()

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        """The optimizer begins."""
        self._enter(Phase.OPTIMIZER)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """The batch is through, and the step where the optimizer has stepped."""
        self._leave()
        if self._step is not None and trainer.global_step != self._global_step:
            self._step.__exit__(None, None, None)
            self._step = None

    def on_validation_start(self, trainer: Any, module: Any) -> None:
        """An evaluation begins."""
        self._enter(Phase.EVALUATION)

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        """It ends."""
        self._leave()

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: Any) -> None:
        """A checkpoint is about to be written."""
        global _saving_since
        _saving_since = time.time_ns() // 1000

    def _enter(self, phase: Phase) -> None:
        """One phase follows another."""
        self._leave()
        run = session.current_run()
        if run is not None:
            self._phases.append(run.phase(phase.value))
            self._phases[-1].__enter__()

    def _leave(self) -> None:
        while self._phases:
            self._phases.pop().__exit__(None, None, None)

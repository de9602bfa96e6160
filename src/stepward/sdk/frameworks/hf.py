"""``StepwardCallback`` for ``transformers.Trainer``: ``Trainer(..., callbacks=[StepwardCallback()])``.

Steps are the optimizer's. Phases: ``optimizer``, ``evaluation``, ``checkpoint_save``; Trainer has no hooks around forward,
backward and the wait for data. The run begins with training where there is none, and ends with the process.
"""

import time
from typing import Any

from transformers import TrainerCallback

from stepward.model.words import Phase
from stepward.sdk import session
from stepward.sdk.run import Run
from stepward.sdk.steps import PhaseScope, Step


class StepwardCallback(TrainerCallback):  # type: ignore[misc]
    """Reports a Trainer's training to the current run.

    Args:
        init: arguments of ``stepward.init`` for the run that this begins where there is none.
    """

    def __init__(self, **init: Any) -> None:
        self._init = init
        self._run: Run | None = None
        self._step: Step | None = None
        self._phases: dict[str, PhaseScope] = {}
        self._since = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Join or begin the run, and tell its configuration."""
        name = getattr(args, "run_name", None)
        given = {"name": name, **self._init} if name and name != args.output_dir else self._init
        self._run = session.current_run() or session.init(**given)
        self._run.config.update(trainer=args.to_dict())
        if hasattr(getattr(model, "config", None), "to_dict"):
            self._run.config.update(model=model.config.to_dict())

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step begins."""
        if self._run is not None and self._step is None:
            self._step = self._run.step(state.global_step + 1)
            self._step.__enter__()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The optimizer begins."""
        self._enter(Phase.OPTIMIZER)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The optimizer is through."""
        self._leave(Phase.OPTIMIZER)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The step is complete."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        self._mark()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Metrics; every process is told the same ones, so that rank 0's are enough."""
        if self._run is not None and state.is_world_process_zero and logs:
            numbers = {name: value for name, value in logs.items() if isinstance(value, int | float)}
            self._run.log(numbers, step=state.global_step)
        self._mark()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The first batch of an evaluation has gone by."""
        if Phase.EVALUATION.value not in self._phases:
            self._enter(Phase.EVALUATION)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The evaluation is complete."""
        self._leave(Phase.EVALUATION)
        self._mark()

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        """The prediction is complete."""
        self._leave(Phase.EVALUATION)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A checkpoint is written; Trainer saves right after the hook before this one."""
        if self._run is not None and state.is_world_process_zero:
            path = f"{args.output_dir}/checkpoint-{state.global_step}"
            now = time.time_ns() // 1000
            self._run.timer.passed(Phase.CHECKPOINT_SAVE.value, (now - self._since) / 1e6)
            self._run.checkpointed(state.global_step, path, self._since, now)
        self._mark()

    def _enter(self, phase: Phase) -> None:
        if self._run is not None:
            self._phases[phase.value] = self._run.phase(phase.value)
            self._phases[phase.value].__enter__()

    def _leave(self, phase: Phase) -> None:
        scope = self._phases.pop(phase.value, None)
        if scope is not None:
            scope.__exit__(None, None, None)

    def _mark(self) -> None:
        self._since = time.time_ns() // 1000

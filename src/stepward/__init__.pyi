"""Types of the lazy names: a stub, so that no import of theirs is in the module."""

from stepward.errors import StepwardError as StepwardError
from stepward.errors import UsageError as UsageError
from stepward.sdk.run import Run as Run
from stepward.sdk.session import current_run as current_run
from stepward.sdk.session import finish as finish
from stepward.sdk.session import init as init
from stepward.sdk.session import log as log
from stepward.sdk.session import phase as phase
from stepward.sdk.session import step as step

__version__: str
__all__ = ["Run", "StepwardError", "UsageError", "current_run", "finish", "init", "log", "phase", "step"]

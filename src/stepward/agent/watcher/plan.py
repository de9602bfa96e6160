"""What a watcher is told: its cluster, and ``watcher.toml`` beside the user's configuration (docs/watcher.md)."""

import os

import msgspec

from stepward.errors import UsageError
from stepward.model.identity import is_project_name
from stepward.orchestrators.slurm.records import SlurmJob
from stepward.settings import Settings, config_path


class WatcherFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``watcher.toml``.

    Attributes:
        project: of jobs that neither ``users`` nor ``accounts`` names.
        output: follow output files.
        link: write the run's link into AdminComment.
        move: tell a job in the run that claims it, whatever its project.
        users, accounts: name -> project; a user outranks an account.
    """

    project: str | None = None
    output: bool = True
    link: bool = True
    move: bool = True
    users: dict[str, str] = {}
    accounts: dict[str, str] = {}

    def project_of(self, record: SlurmJob, settings: Settings) -> str:
        """The project of a job."""
        named = self.users.get(record.user) or self.accounts.get(record.account)
        return named or (settings.project if "STEPWARD_PROJECT" in os.environ else self.project) or settings.project


def read_file(path: str | None = None) -> WatcherFile:
    """The file, or what holds without one.

    Raises:
        UsageError: ``bad_watcher_file``: not understood, an unknown entry, or no name of a project.
    """
    path = path or f"{os.path.dirname(config_path())}/watcher.toml"
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return WatcherFile()
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from None
    import tomllib

    try:
        found = msgspec.convert(tomllib.loads(data.decode()), WatcherFile)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise _bad(path, str(error)) from None
    for name in (found.project, *found.users.values(), *found.accounts.values()):
        if name is not None and not is_project_name(name):
            raise _bad(path, f"{name[:80]!r} is no name of a project")
    return found


def _bad(path: str, why: str) -> UsageError:
    return UsageError(f"{path}: {why}", code="bad_watcher_file", hint="docs/watcher.md lists what may be in it")

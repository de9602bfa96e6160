"""``stepward doctor --cluster``: the settings of a Slurm that hurt training, of one made here or of the host's own."""

import os

from stepward.cli.checks import Check
from stepward.cli.connection import connect
from stepward.clusters.advice import advise
from stepward.errors import NotFound
from stepward.orchestrators.slurm.commands import Slurm

HOST = "host"
"""The Slurm of this machine: that of SLURM_CONF, or of Slurm's own default."""


def examine_slurm(name: str) -> list[Check]:
    """What is to be said of the settings of a Slurm.

    Raises:
        NotFound: ``no_such_cluster``, or ``cluster_elsewhere``: its configuration is not on this machine.
        StepwardError: as ``Slurm.config``.
    """
    slurm = Slurm(os.environ.get("SLURM_CONF") or None) if name == HOST else Slurm(_conf(name))
    return [
        Check(one.name, one.status, f"{one.found}{f': {one.why}' if one.why else ''}", one.advice or None)
        for one in advise(slurm.config())
    ]


def _conf(name: str) -> str:
    path = connect().cluster(name).slurm_conf
    if not os.path.exists(path):
        raise NotFound(
            f"{path} is not on this machine", code="cluster_elsewhere", hint="run the doctor on the server's machine"
        )
    return path

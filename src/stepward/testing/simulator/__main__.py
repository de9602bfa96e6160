"""``python -m stepward.testing.simulator``: print, write or send a simulated run.

--list                                     the kinds of faults
--seed 3 --fault node_loss --out DIR       the folder that a person would have collected, with .truth.json
--seed 3 --fault node_loss --server URL    to a live server, --speed times as fast as it would run
--seed 3 --fault node_loss                 the truth alone
"""

import argparse
import sys

import msgspec

from stepward.testing.simulator import KINDS, simulate


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stepward.testing.simulator", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", choices=["train", "test"], default="train")
    parser.add_argument(
        "--fault", choices=["clean", *KINDS], metavar="KIND", help="drawn from the seed where not given"
    )
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--step-s", type=float)
    parser.add_argument("--onset", type=int, help="the step at which the fault begins")
    parser.add_argument("--magnitude", type=float)
    parser.add_argument("--clocking", choices=["none", "host", "host_async", "device"])
    parser.add_argument("--out", help="folder to write")
    parser.add_argument("--server", help="URL to send to; the token is found as for every client")
    parser.add_argument("--token")
    parser.add_argument("--project", default="default")
    parser.add_argument("--speed", type=float, default=20.0)
    parser.add_argument("--key", help="run key, for a run of its own")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        for name, kind in KINDS.items():
            print(f"{name:20} {kind.type or '-':20} {kind.label:20} {(kind.__doc__ or '').splitlines()[0]}")
        return 0
    simulation = simulate(
        chosen.seed, split=chosen.split, kind=chosen.fault, ranks=chosen.ranks, steps=chosen.steps, step_s=chosen.step_s,
        onset=chosen.onset, magnitude=chosen.magnitude, clocking=chosen.clocking,
    )  # fmt: skip
    if chosen.server:
        _drive(simulation, chosen)
        return 0
    faults = simulation.write(chosen.out) if chosen.out else simulation.truths()
    print(_shown({"faults": faults}))
    return 0


def _drive(simulation: object, chosen: argparse.Namespace) -> None:
    from stepward import settings
    from stepward.client.transport import Transport
    from stepward.testing.simulator.live import drive
    from stepward.testing.simulator.simulation import Simulation

    assert isinstance(simulation, Simulation)
    found = settings.load(server=chosen.server, token=chosen.token)
    driven = drive(
        simulation,
        lambda: Transport(chosen.server, found.token),
        speed=chosen.speed,
        project=chosen.project,
        key=chosen.key,
    )
    print(_shown({"run": driven.run, "frames": driven.frames, "bytes": driven.bytes, "faults": driven.faults}))


def _shown(answer: dict[str, object]) -> str:
    return msgspec.json.format(msgspec.json.encode(answer), indent=1).decode()


if __name__ == "__main__":
    sys.exit(main())

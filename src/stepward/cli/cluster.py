"""``stepward cluster``: Slurm clusters from a specification."""

import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from stepward.cli.cluster_view import columns, describe
from stepward.cli.connection import connect
from stepward.cli.table import Column, Format, FormatOption, show, write_csv, write_json
from stepward.cli.text import safe
from stepward.client.api import Client
from stepward.errors import CommandFailed, UsageError
from stepward.model.clusters import ClusterPlan, Operation, OperationStep

app = typer.Typer(help="Create, show, change and delete Slurm clusters.", no_args_is_help=True)

FileOption = Annotated[
    str, typer.Option("--file", "-f", metavar="FILE", help="Specification, YAML or JSON; - reads stdin.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the cluster. Default: made from display_name.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Stay until it is done, with a line a step.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of a cluster.")]
POLL_S = 0.2


@app.command("update", help="Make a cluster what the whole specification says; running jobs go on.")
@app.command("create", help="Make a cluster, or go on with one that was half made.")
def make(
    context: typer.Context,
    file: FileOption,
    *,
    name: NameOption = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    output: FormatOption = Format.TABLE,
) -> None:
    """What ``create`` and ``update`` are: both take the whole specification."""
    from stepward.clusters.naming import cluster_name, default_name

    spec = _checked(file)
    named = cluster_name(name or default_name(spec["display_name"]))
    client, exists = connect(), context.info_name == "update"
    if exists:
        client.cluster(named)
    if dry_run:
        _show_plan(client.plan_cluster(named, spec), output)
    else:
        _follow(client, (client.update_cluster if exists else client.create_cluster)(named, spec), wait, output)


@app.command()
def delete(
    name: NameArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    output: FormatOption = Format.TABLE,
) -> None:
    """End a cluster: its jobs, processes, control groups and files."""
    client = connect()
    if dry_run:
        _show_plan(client.plan_cluster(name, None), output)
        return
    if not yes and sys.stdin.isatty():
        typer.confirm(f"End cluster {name} with its jobs and records?", abort=True)
    _follow(client, client.delete_cluster(name), wait, output)


@app.command("get")
def get_cluster(name: NameArgument, output: FormatOption = Format.TABLE) -> None:
    """Show a cluster: pools, partitions, nodes, daemons, the newest operation."""
    found = connect().cluster(name)
    if output is Format.JSON:
        write_json(found)
    elif output is Format.CSV:
        write_csv(columns(), [found])
    else:
        describe(found, time.time())


@app.command("list")
def list_clusters(output: FormatOption = Format.TABLE) -> None:
    """List the clusters."""
    show(output, columns(), connect().clusters(), empty="no cluster; `stepward cluster create -f FILE` makes one")


@app.command()
def validate(file: FileOption, output: FormatOption = Format.TABLE) -> None:
    """Check a specification; needs no server, touches nothing."""
    if output is Format.TABLE:
        spec = _checked(file)
        pools = ", ".join(f"{pool['id']} {pool['min_nodes']}-{pool['max_nodes']}" for pool in spec["node_pools"])
        parts = ", ".join(partition["id"] for partition in spec["partitions"])
        print(f"valid: {safe(spec['display_name'])}, provider {spec['provider']}; pools {pools}; partitions {parts}")
        return
    problems: list[dict[str, Any]] = []
    try:
        _read(file)
    except UsageError as error:
        if error.code != "bad_cluster_spec":
            raise
        problems = error.context["problems"]
    if output is Format.JSON:
        write_json({"valid": not problems, "problems": problems})
    else:
        write_csv([Column(name, _field(name)) for name in ("path", "line", "message")], problems)
    if problems:
        raise typer.Exit(2)


def _field(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda problem: problem.get(name)


def _checked(file: str) -> dict[str, Any]:
    """The specification of a file as plain values; what is wrong with it is told a line each before the error is."""
    try:
        return _read(file)
    except UsageError as error:
        problems = error.context.get("problems") or []
        for one in problems:
            place = f"{file}:{one['line']}" if one.get("line") else file
            print(safe(f"{place}: {one['path'] or 'the specification'}: {one['message']}"), file=sys.stderr)
        if not problems:
            raise
        count = f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}"
        raise UsageError(f"{count} in {file}; nothing was touched", code=error.code, hint=error.hint) from None


def _read(file: str) -> dict[str, Any]:
    import msgspec

    from stepward.clusters.reading import read_spec

    if file == "-":
        data = sys.stdin.buffer.read()
    else:
        with open(file, "rb") as given:
            data = given.read()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no UTF-8 text", code="bad_cluster_spec", hint="docs/clusters.md") from None
    spec: dict[str, Any] = msgspec.to_builtins(read_spec(text))
    return spec


def _show_plan(plan: ClusterPlan, output: Format) -> None:
    if output is not Format.TABLE:
        write_json(plan)
        return
    print(f"would {plan.kind} {safe(plan.cluster)}")
    for change in (
        plan.changes or ["no change; what does not run would be started"] if plan.kind == "update" else plan.changes
    ):
        print(f"  {safe(change)}")
    print("steps")
    for step in plan.steps:
        print(f"  {safe(step.title)}")


def _follow(client: Client, operation: Operation, wait: bool, output: Format) -> None:
    """Wait for an operation, with a line a step for people; its failure is the command's."""
    told = 0
    while wait and operation.state == "running":
        time.sleep(POLL_S)
        operation = client.operation(operation.id)
        done = [step for step in operation.steps if step.state in ("done", "failed")]
        if output is Format.TABLE:
            for step in done[told:]:
                _tell(step)
        told = len(done)
    if output is not Format.TABLE:
        write_json(operation)
    elif operation.state == "running":
        print(f"begun: {operation.kind} {safe(operation.cluster)}, operation {operation.id}")
    if operation.error is not None:
        raise CommandFailed(operation.error.detail, code=operation.error.code, hint=operation.error.hint)
    if operation.state == "interrupted":
        raise CommandFailed(
            f"the server was ended as {operation.kind} of {operation.cluster} began",
            code="operation_interrupted",
            hint="give the command again",
        )
    if operation.state == "done" and output is Format.TABLE:
        _conclude(client, operation)


def _tell(step: OperationStep) -> None:
    mark = " " if step.state == "done" else "!"
    print(f"{mark} {step.seconds or 0:6.2f} s  {safe(step.title)}", flush=True)


def _conclude(client: Client, operation: Operation) -> None:
    total = sum(step.seconds or 0 for step in operation.steps)
    if operation.kind == "delete":
        print(f"{safe(operation.cluster)} is gone ({total:.1f} s)")
        return
    print(f"{safe(operation.cluster)} is ready ({total:.1f} s); for sinfo, sbatch, squeue:")
    print(f"export SLURM_CONF={safe(client.cluster(operation.cluster).slurm_conf)}")

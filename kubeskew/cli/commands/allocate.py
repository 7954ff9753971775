"""`kubeskew allocate`: the scheduler's device allocator without a cluster."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson

from kubeskew.apimachinery.clock import SeededEntropy, deadline
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.known_bugs import check_bugs
from kubeskew.apimachinery.process.component import VersionParam, bugs_option
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version
from kubeskew.cli import completion
from kubeskew.cli.commands.options import output_option, print_json, print_table
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError

_FILE = click.Path(path_type=Path, dir_okay=False)
_BAD_CASE = (UserError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


@click.command()
@click.option(
    "-f",
    "--filename",
    "paths",
    type=_FILE,
    multiple=True,
    help="A file of manifests, YAML or JSON; repeatable; - is standard input.",
)
@click.option("--node", help="Try only this node [default: every node of the files].")
@click.option("--version", type=VersionParam(), default=None, help="Scheduler version.  [default: 1.36]")
@click.option(
    "--feature-gates",
    "gates",
    shell_complete=completion.gates,
    default="",
    metavar="A=true,…",
    help="Feature gates of the scheduler to turn on or off.",
)
@bugs_option
@click.option("--explain", is_flag=True, help="For each device and pool that was not picked, show why.")
@click.option(
    "--jsonl",
    is_flag=True,
    help="Read cases from FILE or standard input, one JSON document a line, and answer each with a line.",
)
@output_option
@click.argument("file", type=click.File("rb"), required=False)
def allocate(
    paths: tuple[Path, ...],
    node: str | None,
    version: Version | None,
    gates: str,
    bugs: Mapping[str, bool],
    explain: bool,
    jsonl: bool,
    output: str,
    file: BinaryIO | None,
) -> int:
    """Show which devices the scheduler of a version would pick for claims; no cluster is needed.

    The files hold DeviceClasses, ResourceSlices, ResourceClaims, ResourceClaimTemplates, Nodes and
    DeviceTaintRules, of any version of resource.k8s.io. The claims that have no allocation in their status
    are allocated together, as if one pod used them all. The devices in the status of the other claims are
    taken. Exits 1 if the claims fit on no node.

    \b
    kubeskew allocate -f devices.yaml -f claim.yaml
    kubeskew allocate -f all.yaml --node gpu-node --explain
    kubeskew allocate -f all.yaml --version 1.34 --feature-gates DRAPartitionableDevices=true -o json
    kubeskew allocate -f all.yaml --feature-gates DRAListTypeAttributes=true --bugs k8s-139332=off
    kubeskew allocate --jsonl cases.jsonl
    """
    if jsonl:
        if paths or node or version or gates or bugs or explain:
            raise UserError("--jsonl takes everything from its lines: no other option goes with it")
        _answer_all(file if file is not None else sys.stdin.buffer)
        return 0
    if file is not None:
        raise UserError(f"{file.name}: manifests are given with -f, cases with --jsonl")
    if not paths:
        raise UserError("nothing to read: give manifests with -f FILE, or cases with --jsonl")
    chosen = _gates(version or DEFAULT_VERSION, gates, bugs)
    return _allocate(paths, node, version or DEFAULT_VERSION, chosen, explain, output)


def _gates(version: Version, text: str, bugs: Mapping[str, bool]) -> FeatureGates:
    """`bugs` switches known bugs of the scheduler. Raises UserError."""
    try:
        check_bugs(bugs, "scheduler")
    except ValueError as error:
        raise UserError(f"--bugs: {error}") from error
    try:
        return FeatureGates.parse(version, text, bugs)
    except ValueError as error:
        raise UserError(f"feature gates: {error}") from error


def _answer_all(lines: BinaryIO) -> None:
    for line in lines:
        if line.strip():
            click.echo(orjson.dumps(_answer(line)))


def _answer(line: bytes) -> dict[str, Any]:
    """Lines that are no case get an error as their result."""
    from kubeskew.cli.allocation import check_case
    from kubeskew.scheduler.allocator.cases import run_case
    from kubeskew.scheduler.features import FILTER_SECONDS

    name = None
    try:
        case = orjson.loads(line.strip())
        name = case.get("name") if isinstance(case, dict) else None
        check_case(case)
        answer = run_case(case, SeededEntropy().uid, lambda: deadline(FILTER_SECONDS))
    except _BAD_CASE as error:
        answer = {"allocations": None, "error": f"unusable case: {error}"}
    return {"name": name, **answer}


def _allocate(
    paths: tuple[Path, ...],
    node: str | None,
    version: Version,
    gates: FeatureGates,
    explain: bool,
    output: str,
) -> int:
    from kubeskew.cli.allocation import AllocationRun, load_files

    files = load_files(paths, version, gates)
    run = AllocationRun(files, version, gates)
    answers = run.on_nodes(node, explained=explain)
    for warning in files.warnings:
        echo(f"warning: {warning}", err=True)
    if output == "json":
        print_json({"version": str(version), "claims": run.claim_names, "nodes": answers})
    else:
        _print(run.claim_names, answers)
    return 0 if any(answer["allocations"] is not None for answer in answers) else 1


def _print(claims: list[str], answers: list[dict[str, Any]]) -> None:
    fitting = [answer for answer in answers if answer["allocations"] is not None]
    others = [answer for answer in answers if answer["allocations"] is None]
    if fitting:
        echo(f"Allocation on {fitting[0]['name']}:")
        rows = list(_rows(claims, fitting[0]["allocations"]))
        print_table(["CLAIM", "REQUEST", "DRIVER", "POOL", "DEVICE", "DETAILS"], rows)
        if fitting[1:]:
            echo("\nPossible on " + ", ".join(answer["name"] for answer in fitting[1:]))
    for answer in others:
        echo(f"Not possible on {answer['name']}: {answer['error']}")
    for answer in fitting[:1] or others:
        if "explanation" in answer:
            _print_explanation(answer["name"], answer["explanation"])


def _rows(claims: list[str], allocations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for claim, allocation in zip(claims, allocations, strict=True):
        for result in allocation["devices"].get("results") or ():
            yield {**result, "claim": claim, "details": _details(result)}


def _details(result: dict[str, Any]) -> str:
    parts = []
    if result.get("adminAccess"):
        parts.append("admin access")
    if result.get("consumedCapacity") is not None:
        amounts = sorted(result["consumedCapacity"].items())
        parts.append("share of " + ", ".join(f"{name} {amount}" for name, amount in amounts))
    if result.get("bindingConditions"):
        parts.append("waits for " + ", ".join(result["bindingConditions"]))
    return "; ".join(parts)


def _print_explanation(node: str, explanation: dict[str, Any]) -> None:
    echo(f"\nPools as {node} sees them:")
    print_table(["POOL", "VERDICT"], explanation["pools"])
    for request in explanation["requests"]:
        echo(f"\nDevices for request {request['request']} of claim {request['claim']}:")
        print_table(["DEVICE", "VERDICT"], request["devices"])

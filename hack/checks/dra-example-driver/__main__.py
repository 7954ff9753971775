"""Start a cluster, run the suite against it, print what passed."""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from certificates import CertManager
from pods import Node, PodProcesses

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_KUBESKEW = Path(sys.executable).with_name("kubeskew")
_KIND_CONFIG = Path("demo/scripts/kind-cluster-config.yaml")


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    """Arguments after `--` are the suite's."""
    ours, suites = sys.argv[1:], []
    if "--" in ours:
        at = ours.index("--")
        ours, suites = ours[:at], ours[at + 1 :]
    parser = argparse.ArgumentParser(prog="hack/checks/dra-example-driver/run")
    parser.add_argument("directory", type=Path, help="a checkout of the driver, with programs in bin/")
    parser.add_argument("--version", default="1.36")
    parser.add_argument("--report", type=Path, help="where to leave Ginkgo's report (JSON)")
    parser.add_argument("--logs", type=Path, help="where to leave the logs of the driver's processes")
    return parser.parse_args(ours), suites


def _cluster_file(directory: Path, version: str) -> dict[str, Any]:
    """The cluster that the suite asks kind for, without the gates that the release does not know.

    It has one node that takes pods: the suite takes devices of one name on two nodes for the same device.
    """
    wanted = yaml.safe_load((directory / _KIND_CONFIG).read_text())
    known = FeatureGates(Version.parse(version))
    gates = {name: on for name, on in (wanted.get("featureGates") or {}).items() if known.knows(name)}
    return {
        "version": version,
        "featureGates": gates,
        "runtimeConfig": {
            name: value == "true" for name, value in (wanted.get("runtimeConfig") or {}).items()
        },
        "nodes": [{"count": 1}],
    }


def _kubeskew(state: Path, *arguments: str) -> str:
    command = [str(_KUBESKEW), *arguments[:1], "--state-dir", str(state), *arguments[1:]]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


async def _suite(directory: Path, kubeconfig: Path, report: Path, flags: list[str]) -> int:
    program = directory / "bin" / "e2e.test"
    process = await asyncio.create_subprocess_exec(
        str(program),
        f"-ginkgo.json-report={report}",
        *flags,
        cwd=directory / "test" / "e2e",
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )
    return await process.wait()


def _print_table(report: Path) -> None:
    specs = [
        spec
        for suite in json.loads(report.read_text())
        for spec in suite["SpecReports"] or ()
        if spec["LeafNodeType"] == "It"
    ]
    for spec in specs:
        name = " / ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
        print(f"{spec['State']:8} {spec['RunTime'] / 1e9:6.1f} s  {name}")
        if spec["State"] != "passed" and "Failure" in spec:
            print("         " + spec["Failure"]["Message"].strip().replace("\n", "\n         "))
    passed = sum(spec["State"] == "passed" for spec in specs)
    skipped = sum(spec["State"] in ("skipped", "pending") for spec in specs)
    print(f"{passed} of {len(specs) - skipped} passed, {skipped} not run")


async def _run(arguments: argparse.Namespace, flags: list[str], state: Path) -> int:
    directory = arguments.directory.resolve()
    status = json.loads(_kubeskew(state, "status", "-o", "json"))
    nodes = {entry["name"]: Node.of_status(entry) for entry in status["nodes"]}
    kubeconfig = Path(status["kubeconfig"])
    client = APIClient.from_kubeconfig(kubeconfig, "dra-example-driver-run", max_requests=64)
    logs = (arguments.logs or state / "driver-logs").resolve()
    report = (arguments.report or state / "report.json").resolve()
    report.unlink(missing_ok=True)
    clock = SystemClock()
    certificates = CertManager(client, clock)
    pods = PodProcesses(client, clock, kubeconfig, nodes, directory / "bin", logs)
    await certificates.install()
    try:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(certificates.run()), group.create_task(pods.run())]
            code = await _suite(directory, kubeconfig, report, flags)
            for helper in helpers:
                helper.cancel()
    finally:
        await pods.stop()
        await client.close()
    if not report.exists():
        raise SystemExit(f"the suite ended with {code} and left no report")
    _print_table(report)
    return code


def main() -> int:
    arguments, flags = _arguments()
    with tempfile.TemporaryDirectory(prefix="dra-example-driver-") as scratch:
        state = Path(scratch) / "cluster"
        config = Path(scratch) / "cluster.yaml"
        config.write_text(yaml.safe_dump(_cluster_file(arguments.directory, arguments.version)))
        try:
            _kubeskew(state, "up", "--config", str(config))
            return asyncio.run(_run(arguments, flags, state))
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                _kubeskew(state, "down", "--purge")


if __name__ == "__main__":
    sys.exit(main())

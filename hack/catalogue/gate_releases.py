"""Make `hack/catalogue/facts/gate-releases.json`: the gates that the components of each release register.

    gate_releases.py --output hack/catalogue/facts/gate-releases.json 1.31=TREE 1.30=DIR …

A TREE is a source tree of Kubernetes, 1.31 or later. A DIR holds Go files of an older release that register
gates, in any order and depth: `kube_features.go` of k8s.io/kubernetes/pkg/features and of the modules
apiserver, apiextensions-apiserver, controller-manager and component-base (logs, metrics, zpages),
`known_features.go` of client-go from 1.30 on; a vendor directory of a project that imports k8s.io/kubernetes
has them all. Releases that are not named keep what the file has of them, as does a gate of `--keep`, whose
state in the given sources is not upstream's. Result:

    {gate: [[first minor, last minor, stage, default, locked], …]}
"""

import argparse
import json
import sys
from pathlib import Path

from kubeskew.apimachinery.versions import OLDEST_IMPORTED
from kubeskew.releases.tree.gates import gates, loose_files, read_gates
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.source_tree import SourceTree

State = tuple[str, int, int]  # stage, default, locked
Table = dict[str, list[list[int | str]]]


def registered(directory: Path, minor: int) -> dict[str, State]:
    """Gates by name, with their state in that release. Raises TreeError for what cannot be read."""
    if minor < OLDEST_IMPORTED:
        specs = read_gates(loose_files(directory)).acting(minor)
        return {name: (spec.stage, int(spec.default), int(spec.locked)) for name, spec in specs.items()}
    tree = SourceTree(directory)
    if tree.minor != minor:
        raise TreeError(f"{directory} is Kubernetes 1.{tree.minor}, not 1.{minor}")
    return {
        name: (state["stage"], int(state["default"]), int(state["locked"]))
        for name, state in gates(tree)["gates"].items()
    }


def by_release(table: Table) -> dict[int, dict[str, State]]:
    """The states that a table of spans has, by minor."""
    releases: dict[int, dict[str, State]] = {}
    for name, spans_of_gate in table.items():
        for first, last, stage, default, locked in spans_of_gate:
            for minor in range(int(first), int(last) + 1):
                releases.setdefault(minor, {})[name] = (str(stage), int(default), int(locked))
    return releases


def spans(releases: dict[int, dict[str, State]]) -> Table:
    """Nothing about a gate changed in the releases of a span."""
    table: Table = {}
    for minor, states in sorted(releases.items()):
        for name, state in states.items():
            rows = table.setdefault(name, [])
            if rows and rows[-1][1] == minor - 1 and rows[-1][2:] == [*state]:
                rows[-1][1] = minor
            else:
                rows.append([minor, minor, *state])
    return dict(sorted(table.items()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("releases", nargs="+", metavar="1.NN=DIR")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--keep", metavar="GATE,…", default="", help="gates that stay as the file has them")
    arguments = parser.parse_args()
    known = by_release(json.loads(arguments.output.read_text("utf-8"))) if arguments.output.exists() else {}
    kept = set(filter(None, arguments.keep.split(",")))
    for argument in arguments.releases:
        release, _, directory = argument.partition("=")
        minor = int(release.removeprefix("1."))
        try:
            read = registered(Path(directory), minor)
        except TreeError as error:
            raise SystemExit(str(error)) from None
        before = known.get(minor, {})
        known[minor] = {name: state for name, state in read.items() if name not in kept}
        known[minor] |= {name: state for name, state in before.items() if name in kept}
        print(f"{release}: {len(known[minor])} gates", file=sys.stderr)
    rows = [
        f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in spans(known).items()
    ]
    arguments.output.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()

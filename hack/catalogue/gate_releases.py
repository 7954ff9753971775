"""Make `hack/catalogue/facts/gate-releases.json`: the gates that the components of each release register.

    gate_releases.py --output hack/catalogue/facts/gate-releases.json 1.26=DIR 1.27=DIR …

Each DIR holds Go files of that release that register gates, in any order and depth: `kube_features.go` and
`versioned_kube_features.go` of k8s.io/kubernetes/pkg/features, `kube_features.go` of the modules apiserver,
apiextensions-apiserver, controller-manager and component-base (logs, metrics, zpages), `known_features.go` of
client-go from 1.30 on. A vendor directory of a project that imports k8s.io/kubernetes has them all. Result:

    {gate: [[first minor, last minor, stage, default, locked], …]}
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

_CONSTANT = re.compile(
    r'^\s*(\w+)(?:\s+(?:\w+\.)?Feature)?\s*=\s*(?:(?:\w+\.)?Feature\()?"(\w+)"', re.MULTILINE
)
_FLAT = re.compile(r"^\t+(?:\w+\.)?(\w+):\s*(\{[^{}\n]*PreRelease[^{}\n]*\})", re.MULTILINE)
_VERSIONED = re.compile(
    r"^\t+(?:\w+\.)?(\w+):\s*\{[^\S\n]*\n((?:\s*(?://[^\n]*)?\n|\s*\{[^{}]*\},?[^\n]*\n)+)\s*\}", re.MULTILINE
)
_SPEC = re.compile(r"\{[^{}]*PreRelease[^{}]*\}")
_BOOLEAN = re.compile(r"^\s*(?:const\s+)?(\w+)\s*=\s*(true|false)$", re.MULTILINE)


class Spec(NamedTuple):
    """The state of a gate from a release on; 0 is any."""

    since: int
    stage: str
    default: int
    locked: int


def read_spec(text: str) -> Spec:
    """One `{Version: …, Default: …, PreRelease: …, LockToDefault: …}`."""
    version = re.search(r'MustParse\("1\.(\d+)"\)', text)
    stage = re.search(r"PreRelease:\s*(?:\w+\.)?(\w+)", text)
    if stage is None:
        raise SystemExit(f"no PreRelease in {text}")
    return Spec(
        int(version[1]) if version else 0,
        stage[1],
        int(bool(re.search(r"\bDefault:\s+true\b", text))),
        int(bool(re.search(r"\bLockToDefault:\s+true\b", text))),
    )


def _without_boolean_constants(text: str) -> str:
    """Values of boolean constants replace their names in the source."""
    for constant, value in _BOOLEAN.findall(text):
        text = re.sub(rf":\s+{constant}\b", f": {value}", text)
    return text


def registered(texts: list[str], minor: int) -> dict[str, Spec]:
    """Gates by name, with their state in that release."""
    texts = [_without_boolean_constants(text) for text in texts]
    names = {constant: name for text in texts for constant, name in _CONSTANT.findall(text)}
    specs: dict[str, list[Spec]] = {}
    for text in texts:
        for constant, spec in _FLAT.findall(text):
            specs.setdefault(names.get(constant, constant), []).append(read_spec(spec))
        for constant, body in _VERSIONED.findall(text):
            specs.setdefault(names.get(constant, constant), []).extend(map(read_spec, _SPEC.findall(body)))
    acting = {name: [spec for spec in rows if spec.since <= minor] for name, rows in specs.items()}
    return {name: max(rows, key=lambda spec: spec.since) for name, rows in acting.items() if rows}


def spans(releases: dict[int, dict[str, Spec]]) -> dict[str, list[list[int | str]]]:
    """Nothing about a gate changed in the releases of a span."""
    table: dict[str, list[list[int | str]]] = {}
    for minor, gates in sorted(releases.items()):
        for name, spec in gates.items():
            rows = table.setdefault(name, [])
            state = list(spec[1:])
            if rows and rows[-1][1] == minor - 1 and rows[-1][2:] == state:
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
    arguments = parser.parse_args()
    releases = {}
    for argument in arguments.releases:
        release, _, directory = argument.partition("=")
        minor = int(release.removeprefix("1."))
        texts = [path.read_text("utf-8") for path in sorted(Path(directory).rglob("*.go"))]
        releases[minor] = registered(texts, minor)
        print(f"{release}: {len(releases[minor])} gates", file=sys.stderr)
    rows = [
        f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}"
        for name, row in spans(releases).items()
    ]
    arguments.output.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()

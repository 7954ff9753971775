"""Writes the JSON Schemas and the reference of cluster files: `make schemas`.

`kubeskew schema` prints the same schemas (kubeskew/cli/schemas.py).
"""

from collections.abc import Mapping
from pathlib import Path

from kubeskew.cli.schemas import SCHEMAS, as_text
from kubeskew.cluster.clusterfile import (
    CLUSTER_KEYS,
    COMPONENT_KEYS,
    DRIVER_KEYS,
    IMAGE_KEYS,
    NODE_KEYS,
    PLUGIN_KEYS,
    Keys,
)

DOCS = Path(__file__).parents[2] / "docs"


def cluster_page() -> str:
    """Text of docs/cluster-file.md."""
    parts = [
        ("The file", CLUSTER_KEYS, ""),
        ("A component", COMPONENT_KEYS, "Below `components`, by the name of a kind or of one component."),
        ("A node", NODE_KEYS, "In the list `nodes`."),
        ("An image", IMAGE_KEYS, "In the mapping `images`, by the image's name with wildcards."),
        ("A driver", DRIVER_KEYS, "In the list `drivers` of a node."),
        ("A device plugin", PLUGIN_KEYS, "In the list `devicePlugins` of a node."),
    ]
    return _HEAD + "".join(_section(title, keys, where) for title, keys, where in parts)


def _section(title: str, keys: Keys, where: str) -> str:
    lines = [f"\n## {title}", ""]
    lines += [where, ""] if where else []
    lines += ["| key | what it means | example |", "| --- | --- | --- |"]
    for name, key in keys.items():
        needed = " Required." if key.required else ""
        lines.append(f"| `{name}` | {key.meaning}{needed} | `{key.example}` |")
    return "\n".join(lines) + "\n"


_HEAD = """\
# Cluster files

<!-- Written by hack/documents/schemas.py from kubeskew/cluster/clusterfile.py. -->

`kubeskew up --config FILE` starts the cluster that a file describes; `cluster` in the header of a
[scenario](scenarios.md) and the arguments of
[`simulated_cluster`](how-to/simulated.md) have the same keys. Every key may be left
out unless it is required; an unknown one is refused with the nearest known. Write versions in quotes: YAML
reads 1.30 as the number 1.3.

    version: "1.35"
    featureGates: {DRAExtendedResource: true}
    components:
      scheduler: {version: "1.34", featureGates: {DRAExtendedResource: false}}
    nodes:
    - name: gpu-node
      labels: {zone: a}
      drivers: [{name: gpu.example.com, devices: 8}]
    - count: 2

An editor that knows JSON Schema completes the keys, gates and versions, and underlines what is wrong, if the
first line of the file names the schema (the YAML extensions of VS Code, Neovim and the JetBrains editors):

    # yaml-language-server: $schema=cluster.schema.json

The path is relative to the file, or a URL. `kubeskew schema cluster > cluster.schema.json` writes the
schema of the kubeskew that is installed, with its releases and gates, `kubeskew schema scenario >
scenario.schema.json` that of [scenarios](scenarios.md). In a checkout these are
[cluster.schema.json](schemas/cluster.schema.json) and [scenario.schema.json](schemas/scenario.schema.json).
"""


def files() -> Mapping[Path, str]:
    """Texts of all written files, by path."""
    written = {DOCS / "schemas" / f"{name}.schema.json": as_text(name) for name in SCHEMAS}
    return {**written, DOCS / "cluster-file.md": cluster_page()}


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

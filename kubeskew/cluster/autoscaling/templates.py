"""Node templates from cluster files, or from manifests of nodes with their slices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.apimachinery.client.refs import NODES, dra_refs
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster import config
from kubeskew.cluster.autoscaling.manifests import Manifests
from kubeskew.cluster.config import NodeSpec
from kubeskew.cluster.failures import UserError
from kubeskew.kubelet.device_managers import PluginCapacity
from kubeskew.kubelet.drivers.generations import generations_of
from kubeskew.kubelet.drivers.profiles import resources_of
from kubeskew.kubelet.drivers.resourceslice_controller import slice_specs
from kubeskew.kubelet.drivers.settings import Directories, DriverNode, offer
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.node.object import initial_node, node_status
from kubeskew.scheduler.autoscaling.snapshot import NodeTemplate


@dataclass(frozen=True, slots=True)
class _Template:
    where: str
    node: Object
    slices: Sequence[Object]


def load(paths: Sequence[Path], into: Manifests) -> list[NodeTemplate]:
    """Slices of the templates are added to the manifests. Raises UserError.

    The slices name a node that stands for all nodes of the template.
    """
    return _taken((made for path in paths for made in _read(path, into)), into)


def of_entries(entries: Any, where: str, into: Manifests) -> list[NodeTemplate]:
    """Like `load`, for entries of a cluster file's `nodes`."""
    return _taken(_of_cluster_file(where, {"nodes": entries}, into), into)


def _taken(read: Iterable[_Template], into: Manifests) -> list[NodeTemplate]:
    found: dict[str, _Template] = {}
    for made in read:
        name = made.node["metadata"]["name"]
        if name in found:
            raise UserError(
                f"{made.where}: there is a template {name} already, in {found[name].where}: rename one"
            )
        found[name] = made
    return [_template(name, made, into) for name, made in found.items()]


def _template(name: str, made: _Template, into: Manifests) -> NodeTemplate:
    origin = f"template-node-for-{name}"
    for obj in made.slices:
        into.add(_moved(obj, origin))
    return NodeTemplate(name, made.node, slices_of=origin if made.slices else "")


def _moved(obj: Object, origin: str) -> Object:
    """Copies a slice for another node, in a pool of its own."""
    metadata = {"name": f"{obj['metadata']['name']}-{origin}"}
    if "spec" not in obj:
        return {**obj, "metadata": metadata, "nodeName": origin}
    spec = obj["spec"]
    pool = {**spec["pool"], "name": f"{spec['pool']['name']}-{origin}"}
    return {**obj, "metadata": metadata, "spec": {**spec, "nodeName": origin, "pool": pool}}


def _read(path: Path, into: Manifests) -> Iterator[_Template]:
    try:
        first = next(iter(yaml_files.load_all(path.read_text(encoding="utf-8"))), None)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    if isinstance(first, dict) and "kind" not in first:
        yield from _of_cluster_file(str(path), first, into)
    else:
        yield from _of_manifests(path, into)


# -- cluster files


def _of_cluster_file(where: str, document: dict[str, Any], into: Manifests) -> Iterator[_Template]:
    entries = document.get("nodes")
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{where} has no nodes: a template is an entry of `nodes`, or a manifest of a Node")
    once = [_without_count(entry) for entry in entries]
    for node in config.parse({**document, "nodes": once}, where).nodes:
        yield _Template(where, _node(node, into), list(_slices(node, into)))


def _without_count(entry: Any) -> Any:
    """Templates are without a count: the present number of nodes does not limit how many may come."""
    if not isinstance(entry, dict):
        return entry
    return {"name": "node", **{key: value for key, value in entry.items() if key != "count"}}


def _node(spec: NodeSpec, into: Manifests) -> Object:
    """Registers the node as its kubelet would, but ready."""
    made = NodeConfig(spec.name, spec.labels, spec.capacity, spec.taints)
    plugins = {plugin["resource"]: plugin.get("devices", 1) for plugin in spec.device_plugins}
    status = node_status(
        made,
        KubeletFeatures.of(into.gates),
        {},
        PluginCapacity(plugins, plugins),
        not_ready="",
        port=0,
        now=SystemClock().now(),
    )
    return initial_node(made, status)


def _slices(spec: NodeSpec, into: Manifests) -> Iterator[Object]:
    """Drivers, or the kubelet of classic releases, would publish these slices for the node."""
    ref = dra_refs(into.version).slices
    for entry in spec.drivers:
        driver = str(entry["name"])
        for number, (api_version, body) in enumerate(_bodies(spec.name, driver, entry, into.version)):
            metadata = {"name": f"{spec.name}-{driver}-{number}"}
            yield {"apiVersion": api_version, "kind": ref.kind, "metadata": metadata, **body}


def _bodies(
    node: str, driver: str, entry: Mapping[str, Any], version: Version
) -> Iterator[tuple[str, Object]]:
    offered, head = offer(node, entry), {"nodeName": node, "driverName": driver}
    of_driver = DriverNode(node, Directories(*(Path(),) * 3), offered)
    spoken = dra_refs(version).slices.api_version
    kubelet_slices = generations_of(version).kubelet_slices
    if kubelet_slices is not None:
        for body in kubelet_slices(driver, of_driver, version):
            yield spoken, {**head, **body}
    else:
        for name, pool in resources_of(driver, [offered], version).items():
            if pool.node_name != node:
                raise UserError(f"template {node}: devices of {driver} are not for one node alone")
            for spec in slice_specs(driver, node, name, pool):
                yield "resource.k8s.io/v1", {"spec": spec}


# -- manifests


def _of_manifests(path: Path, into: Manifests) -> Iterator[_Template]:
    own = Manifests(into.version, into.gates)
    own.read([path])
    nodes = {node["metadata"]["name"]: node for node in own.of(NODES)}
    if not nodes:
        raise UserError(f"{path} has no nodes: a template is an entry of `nodes`, or a manifest of a Node")
    slices: dict[str, list[Object]] = {name: [] for name in nodes}
    for obj in own.of(dra_refs(into.version).slices):
        name = (obj.get("spec") or obj).get("nodeName") or ""
        if name not in slices:
            raise UserError(
                f"{path}: can't sanitize slice {obj['metadata']['name']} because it isn't node-local: "
                "give it the nodeName of a template"
            )
        slices[name].append(obj)
    for name, node in nodes.items():
        if not (node.get("status") or {}).get("allocatable"):
            raise UserError(f"{path}: node {name} has no status.allocatable: say what fits it")
        yield _Template(str(path), node, slices[name])

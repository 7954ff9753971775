"""Warns of duplicate ports of a pod's containers. Source: pkg/api/pod/warnings.go, 1.36."""

from collections.abc import Iterator

from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.shared.go_values import container_port
from kubeskew.apiserver.registry.shared.podtemplate.windows import all_containers


def port_warnings(spec: Object, path: str, features: PodFeatures) -> Iterator[str]:
    if not features.port_warnings:
        return
    known: dict[tuple[int, str], list[tuple[str, Object]]] = {}
    for container, inside in all_containers(spec, path):
        for position, port in enumerate(container.get("ports") or ()):
            at = index(child(inside, "ports"), position)
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{at}: hostIP set without hostPort: {container_port(port)}"
            others = known.setdefault((port.get("containerPort") or 0, port.get("protocol") or ""), [])
            for where, other in others:
                word = _conflict(port, other)
                if word:
                    yield f"{at}: {word} port definition with {where}"
            others.append((at, port))
    if features.port_name_warnings:
        yield from _repeated_names(spec, path)


def _repeated_names(spec: Object, path: str) -> Iterator[str]:
    known: dict[str, str] = {}
    for container, inside in all_containers(spec, path):
        for position, port in enumerate(container.get("ports") or ()):
            at, name = index(child(inside, "ports"), position), port.get("name") or ""
            if name and known.setdefault(name, at) != at:
                chosen = f"services and probes that select ports by name will use {known[name]}"
                yield f'{at}: duplicate port name "{name}" with {known[name]}, {chosen}'


def _conflict(port: Object, other: Object) -> str:
    """Returns the sort of a port's collision with another of the same number and protocol; empty if none."""
    one, two = port.get("hostIP") or "", other.get("hostIP") or ""
    first, second = port.get("hostPort") or 0, other.get("hostPort") or 0
    if one == two and first == second:
        return "duplicate"
    if not first or not second:
        return "overlapping"
    return "dangerously ambiguous" if first == second and (not one) != (not two) else ""

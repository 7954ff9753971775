"""Reads the files of `kubeskew allocate`: manifests of devices, claims and nodes, as the scheduler would
see them."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.field import ErrorType
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import features_of
from kubeskew.apiserver.registry.defaulting.applying import defaulter_of
from kubeskew.apiserver.registry.defaulting.context import DefaultingContext
from kubeskew.cli.allocation.validation import faults
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.manifest_files import documents, field_of, typed

_GROUP = "resource.k8s.io"
_VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_KINDS = ("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule")
_UNUSABLE = (LookupError, TypeError, AttributeError, ValueError)


@dataclass(slots=True)
class AllocationFiles:
    """Holds objects by kind and `namespace/name`, in v1 and with defaults; of namesakes the last counts."""

    classes: dict[str, Object] = field(default_factory=dict)
    slices: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)
    rules: dict[str, Object] = field(default_factory=dict)
    nodes: dict[str, Object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  # what a server would refuse

    def node_labels(self) -> dict[str, Mapping[str, str]]:
        """Returns every node that the files know, with its labels: those that only slices name have the host
        name.
        """
        found = {name: (node["metadata"].get("labels") or {}) for name, node in self.nodes.items()}
        for obj in self.slices.values():
            for part in (obj["spec"], *(obj["spec"].get("devices") or ())):
                name = part.get("nodeName")
                if name:
                    found.setdefault(name, {"kubernetes.io/hostname": name})
        return found


def load(paths: tuple[Path, ...], version: Version, gates: FeatureGates) -> AllocationFiles:
    """Reads everything in the files; raises UserError that names file, document and what is wrong."""
    files = AllocationFiles()
    reader = _Reader(files, version, DefaultingContext(features_of(gates), SystemClock().now()))
    for path in paths:
        for where, obj in documents(path):
            try:
                files.warnings += [f"{where}: {text}" for text in reader.take(obj)]
            except UserError as error:
                raise UserError(f"{where}: {error}") from error
            except _UNUSABLE as error:
                raise UserError(f"{where}: not a usable {obj.get('kind')}: {_said(error)}") from error
    return files


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


class _Reader:
    """Sorts objects; methods raise UserError or one of _UNUSABLE."""

    def __init__(self, files: AllocationFiles, version: Version, defaulting: DefaultingContext) -> None:
        self._files = files
        self._version = version
        self._defaulting = defaulting

    def take(self, obj: Object) -> Iterator[str]:
        """Gives what a server would say against the object."""
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        kind = obj.get("kind")
        if not kind or not version:
            raise UserError("expected an object with apiVersion and kind")
        if (group, kind) == ("", "Node"):
            self._files.nodes[_name(obj)] = typed(obj)
            return
        if group != _GROUP or kind not in _KINDS:
            known = ", ".join((*_KINDS, "Node"))
            raise UserError(f"{kind} of {obj['apiVersion']} says nothing about devices: only {known} do")
        if version not in _VERSIONS:
            raise UserError(f"{obj['apiVersion']} is not a version with devices: {', '.join(_VERSIONS)} are")
        made = self._as_v1(obj, kind)
        self._store(kind, made)
        for fault in faults(made, kind, self._version):
            if fault.type is ErrorType.TOO_MANY:
                raise UserError(str(fault))
            yield f"a server of {self._version} refuses {kind} {_name(made)}: {fault}"

    def _as_v1(self, obj: Object, kind: str) -> Object:
        _name(obj)
        made = convert(typed(copy.deepcopy(obj)), GroupVersionKind(_GROUP, "v1", kind))
        defaulter = defaulter_of(f"io.k8s.api.resource.v1.{kind}")
        if defaulter is not None:
            defaulter(made, self._defaulting)
        return made

    def _store(self, kind: str, obj: Object) -> None:
        name = _name(obj)
        if kind == "DeviceClass":
            self._files.classes[name] = obj
        elif kind == "ResourceSlice":
            _check_slice(obj)
            self._files.slices[name] = obj
        elif kind == "DeviceTaintRule":
            field_of(obj, "spec", "taint")
            self._files.rules[name] = obj
        else:
            claim = obj if kind == "ResourceClaim" else _from_template(obj)
            for request in (claim["spec"].get("devices") or {}).get("requests") or ():
                field_of(request, "name")
            metadata = claim["metadata"]
            self._files.claims[f"{metadata.setdefault('namespace', 'default')}/{name}"] = claim


def _from_template(template: Object) -> Object:
    """Returns the claim that a pod would get, named after the template."""
    metadata = {key: value for key, value in template["metadata"].items() if key in ("name", "namespace")}
    return {"metadata": metadata, "spec": template["spec"]["spec"]}


def _name(obj: Object) -> str:
    return str(field_of(obj, "metadata", "name"))


def _check_slice(obj: Object) -> None:
    for path in (("driver",), ("pool", "name"), ("pool", "resourceSliceCount")):
        field_of(obj, "spec", *path)
    for device in obj["spec"].get("devices") or ():
        field_of(device, "name")

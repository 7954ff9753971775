"""Reads the files of `kubeskew allocate`: manifests of devices, claims and nodes, as the scheduler would
see them."""

import copy
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.field import ErrorType
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import NEWEST_MINOR, Version
from kubeskew.apiserver.decoding.decoder import Parsed, decode_value
from kubeskew.apiserver.features import features_of
from kubeskew.apiserver.registry.defaulting.context import DefaultingContext
from kubeskew.apiserver.registry.index import defaulter_of
from kubeskew.cli.allocation.validation import faults
from kubeskew.cluster.failures import UserError

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


def documents(path: Path) -> Iterator[tuple[str, Object]]:
    """Yields (place, object) for every object of a file; raises UserError."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        documents = list(yaml_files.load_all(text))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    for number, document in enumerate(documents, 1):
        where = f"{path}, document {number}" if len(documents) > 1 else str(path)
        yield from _items(where, document)


def _items(where: str, document: Any) -> Iterator[tuple[str, Object]]:
    """Returns the document itself, or what is in it if it is a list."""
    if document is None:
        return
    if not isinstance(document, dict):
        raise UserError(f"{where}: expected an object with apiVersion and kind")
    if str(document.get("kind") or "").endswith("List"):
        kind = document["kind"].removesuffix("List")
        items = document.get("items") or []
        if not isinstance(items, list):
            raise UserError(f"{where}: items: expected a list")
        for index, item in enumerate(items):
            # the items of a typed list need not repeat what they are
            said = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
            yield from _items(f"{where}, item {index}", {**said, **item} if isinstance(item, dict) else item)
        return
    yield where, document


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


def typed(obj: Object) -> Object:
    """Returns the object as an API server reads it; raises UserError if a field has the wrong type."""
    (group, _, version), kind = obj["apiVersion"].rpartition("/"), obj["kind"]
    schemas = (
        types_of(Version(minor)).of_kind(group, version, kind) for minor in range(NEWEST_MINOR, 30, -1)
    )
    schema = next((schema for schema in schemas if schema is not None), None)
    if schema is None:
        raise UserError(f"there is no {kind} in {obj['apiVersion']}")
    try:
        return decode_value(Parsed(obj), GroupVersionKind(group, version, kind), schema, "Ignore").object
    except StatusError as error:
        raise UserError(
            error.message.partition(f"cannot be handled as a {kind}: ")[2] or error.message
        ) from error


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


def field_of(obj: Any, *path: str) -> Any:
    """Returns the value at the path; raises UserError if nothing is there."""
    value = obj
    for depth, key in enumerate(path, 1):
        value = value.get(key) if isinstance(value, dict) else None
        if value in (None, ""):
            raise UserError(f"{'.'.join(path[:depth])} is missing")
    return value

"""Turns the example vendor's parameters into ResourceClaimParameters, which scheduler and autoscaler read.

Source: KEP-4381 as drafted, "Using semantic parameters as claim parameters".
"""

import hashlib
import json

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.node_resources import amount
from kubeskew.kubelet.drivers.semantic.node_resources import METADATA
from kubeskew.kubelet.drivers.settings import plural_of

MANAGED_BY = "app.kubernetes.io/managed-by"
_LONGEST_NAME = 253
_DIGITS = 10
_VERSION = r"^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$"
_AMOUNT = r"^[0-9]+(\.[0-9]+)?([kMGTPE]|[KMGTPE]i)?$"
_SPEC = {
    "type": "object",
    "properties": {
        "minimumAPI": {"type": "string", "maxLength": 64, "pattern": _VERSION},
        "supportsPowerSaving": {"type": "boolean"},
        "requirements": {
            "type": "object",
            "additionalProperties": {
                "x-kubernetes-int-or-string": True,
                "pattern": _AMOUNT,
            },
        },
        "shareable": {"type": "boolean"},
        "config": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


class ParameterError(ValueError):
    """A parameter means nothing to the driver; the text, for people, names it."""


def parameters_ref(group: str, kind: str) -> Ref:
    return Ref(group, "v1alpha1", plural_of(kind), True, kind)


def definition(ref: Ref) -> Object:
    names = {"plural": ref.plural, "singular": ref.kind.lower(), "kind": ref.kind}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}}
    version = {"name": ref.version, "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": f"{ref.plural}.{ref.group}"},
        "spec": {"group": ref.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def generated(driver: str, ref: Ref, target: Ref, vendor: Object) -> Object:
    """Translates what the vendor's object asks for into an object of kind `target`.

    It has the vendor's object as its owner, and a name that depends on that alone. Raises ParameterError.
    """
    metadata = vendor["metadata"]
    digest = hashlib.sha256(f"{driver}/{metadata['uid']}".encode()).hexdigest()[:_DIGITS]
    origin = {"name": metadata["name"], "kind": ref.kind, "uid": metadata["uid"]}
    spec = vendor.get("spec") or {}
    body: Object = {
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": {
            "name": f"{metadata['name'][: _LONGEST_NAME - _DIGITS - 1].rstrip('-.')}-{digest}",
            "namespace": metadata["namespace"],
            "labels": {MANAGED_BY: driver},
            "ownerReferences": [{"apiVersion": ref.api_version, **origin, "controller": True}],
        },
        "generatedFrom": {**origin, "apiGroup": ref.group, "generation": metadata["generation"]},
        "parameters": parameters_of(spec),
    }
    return {**body, "shareable": True} if spec.get("shareable") else body


def parameters_of(spec: Object) -> list[Object]:
    """A quantity such as `10Gi` is 10 x 2^30. Raises ParameterError."""
    conditions = []
    if spec.get("minimumAPI"):
        conditions.append(f'versions["API"] >= {json.dumps(spec["minimumAPI"])}')
    if spec.get("supportsPowerSaving"):
        conditions.append('labels.has("SupportsPowerSaving")')
    found: list[Object] = []
    if conditions:
        found.append({"name": METADATA, "metadata": {"selector": " && ".join(conditions)}})
    for name, required in sorted((spec.get("requirements") or {}).items()):
        try:
            number = amount(required, f"requirements.{name}")
        except ValueError as error:
            raise ParameterError(str(error)) from error
        found.append({"name": name, "counter": {"required": number}})
    return found

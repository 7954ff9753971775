"""Collects what the rules of a kind say about an object, without a server around them."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from kubeskew.apimachinery.catalogue import Catalogue, catalogue_for
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.defaulting import DefaultingContext, apply_defaults
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext, strategy_of
from kubeskew.apiserver.user import SERVER

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def merged(base: Any, patch: Any) -> Any:
    """`base` with the entries of `patch`, as a JSON merge patch does it."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return deepcopy(patch)
    found = {**base, **{name: merged(base.get(name), value) for name, value in patch.items()}}
    return {name: value for name, value in found.items() if value is not None}


def context_of(catalogue: Catalogue, resource: Resource) -> StrategyContext:
    """The context of a write to a server that has stored nothing."""
    return StrategyContext(
        gates=catalogue.gates,
        features=Features.of(catalogue.gates),
        now=NOW,
        entropy=SeededEntropy(1),
        catalogue=catalogue,
        resource=resource,
        user=SERVER,
        verb="update",
        list_entries=lambda *_: (),
        get_entry=lambda *_: None,
    )


class Rules:
    """The rules of one kind at one minor."""

    def __init__(self, group: str, resource: str, minor: int = 36, **gates: bool) -> None:
        version = Version(minor)
        catalogue = catalogue_for(version, FeatureGates(version, gates))
        found = catalogue.resource(group, "v1", resource)
        assert found is not None
        self.resource, self.catalogue = found, catalogue
        self.strategy: Strategy = strategy_of(found.group_resource)()
        self.context = context_of(catalogue, found)

    def read(self, body: Any) -> Any:
        """An object as the server has it before its rules."""
        whole = {"apiVersion": "/".join(filter(None, (self.resource.gvk.group, "v1")))}
        whole |= {"kind": self.resource.gvk.kind, **body}
        sent = json.dumps(whole).encode()
        obj = decoder.decode(sent, "application/json", self.resource, self.catalogue).object
        context = DefaultingContext(self.context.features, NOW)
        obj = apply_defaults(obj, self.resource.schema, context)
        obj["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
        if self.resource.namespaced:
            obj["metadata"]["namespace"] = "run"
        return obj

    def made(self, body: Any) -> Any:
        obj = self.read(body)
        self.strategy.prepare_for_create(obj, self.context)
        drop_disabled(obj, None, self.resource.schema, self.catalogue.gates)
        return obj

    def errors(self, body: Any) -> list[str]:
        """Returns the errors of a new object, first with what the server fills in."""
        try:
            obj = self.made(body)
        except StatusError as refused:
            causes = (refused.details or {})["causes"]
            return [f"{cause['field']}: {cause['message']}" for cause in causes]
        metadata = self.strategy.metadata_errors(obj, self.context)
        return [str(error) for error in self.strategy.check_new(obj, self.context, metadata)]

    def change_errors(self, body: Any, change: Any, status: Any = None) -> list[str]:
        """Returns the errors of a change of an object that has `status`."""
        old = self.made(body)
        if status is not None:
            old["status"] = status
        new = self.read(merged(deepcopy(old), change))
        self.strategy.prepare_for_update(new, old, self.context)
        return [str(error) for error in self.strategy.check_change(new, old, self.context, [])]

    def status_errors(self, body: Any, status: Any, old_status: Any) -> list[str]:
        old = {**self.made(body), "status": old_status}
        new = {**deepcopy(old), "status": status}
        rules = self.strategy.status()
        rules.prepare_for_update(new, old, self.context)
        return [str(error) for error in rules.validate_update(new, old, self.context)]

    def warnings(self, body: Any) -> list[str]:
        return self.strategy.warnings(self.made(body), self.context)

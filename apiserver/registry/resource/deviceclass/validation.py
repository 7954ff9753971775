"""Checks DeviceClasses.

Source: pkg/apis/resource/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resource_names import is_extended_resource
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.shared import selectors


def class_errors(spec: Object, old: Object | None, rules: DRAFeatures) -> list[FieldError]:
    """Returns errors of a class; selectors and configurations that did not change count as stored."""
    same_selectors = old is not None and old.get("selectors") == spec.get("selectors")
    same_config = old is not None and old.get("config") == spec.get("config")

    def config(item: Object, at: str) -> Iterator[FieldError]:
        yield from devices.opaque(item, at, rules, stored=same_config)

    errors = list(devices.selectors(spec.get("selectors"), "spec.selectors", rules, stored=same_selectors))
    errors += devices.each(spec.get("config"), devices.MAX_CONFIGS, config, "spec.config", rules)
    if spec.get("suitableNodes") is not None:  # 1.31
        nodes, any_value = spec["suitableNodes"], rules.any_label_values
        errors += selectors.node_selector_errors(nodes, "spec.suitableNodes", any_value=any_value)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource(name):
        errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors

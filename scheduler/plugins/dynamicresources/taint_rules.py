"""The device classes of the cluster by name, and DeviceTaintRules, which add taints to devices of slices.

As upstream before 1.37.1, a rule without a selector may taint every device, against the API's description
(141620); one whose selector is empty does.

Source: k8s.io/dynamic-resource-allocation/resourceslice/tracker, 1.33 … 1.37.
"""

from collections.abc import Callable, Sequence

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.cel.errors import CELError
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.pools import SliceIndex

ClassLookup = Callable[[str], Object | None]


class DeviceClasses:
    """Classes of the v1 shape."""

    def __init__(self) -> None:
        self._classes: dict[str, Object] = {}

    def set_class(self, device_class: Object) -> None:
        self._classes[device_class["metadata"]["name"]] = device_class

    def remove_class(self, device_class: Object) -> None:
        self._classes.pop(device_class["metadata"]["name"], None)

    def get(self, name: str) -> Object | None:
        return self._classes.get(name)

    def device_class(self, name: str) -> Object:
        """Raises LookupError with the text that users see."""
        found = self._classes.get(name)
        if found is None:
            raise LookupError(f'deviceclass.resource.k8s.io "{name}" not found')
        return found


class TaintRules:
    """All rules of the cluster. `classes` finds device classes: rules of 1.33 and 1.34 may name one, and
    have selectors of their own."""

    def __init__(
        self, classes: ClassLookup, features: DeviceFeatures, *, taints_all_unselected: bool
    ) -> None:
        """`taints_all_unselected`: rules without a selector taint every device, and not none."""
        self._taints_all_unselected = taints_all_unselected
        self._classes = classes
        self._features = features
        self._rules: dict[str, Object] = {}

    def set_rule(self, rule: Object) -> None:
        self._rules[rule["metadata"]["name"]] = rule

    def remove_rule(self, rule: Object) -> None:
        self._rules.pop(rule["metadata"]["name"], None)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def concerns(self, rule: Object, obj: Object) -> bool:
        if not self._taints_all_unselected and rule["spec"].get("deviceSelector") is None:
            return False
        return _names_pool(_selector(rule), obj["spec"])

    def patched(self, obj: Object) -> Object:
        """Copies the slice with the taints of all rules; the slice itself if none concerns it."""
        rules = [self._rules[name] for name in sorted(self._rules) if self.concerns(self._rules[name], obj)]
        if not rules:
            return obj
        spec = obj["spec"]
        devices = [self._tainted(device, spec["driver"], rules) for device in spec.get("devices") or ()]
        return {**obj, "spec": {**spec, "devices": devices}}

    def _tainted(self, device: Object, driver: str, rules: list[Object]) -> Object:
        taints = [rule["spec"]["taint"] for rule in rules if self._selects(rule, driver, device)]
        return {**device, "taints": [*(device.get("taints") or ()), *taints]} if taints else device

    def _selects(self, rule: Object, driver: str, device: Object) -> bool:
        selector = _selector(rule)
        if selector.get("device") is not None and selector["device"] != device["name"]:
            return False
        selectors: list[Object] = list(selector.get("selectors") or ())
        if selector.get("deviceClassName") is not None:
            device_class = self._classes(selector["deviceClassName"])
            if device_class is None:
                return False
            selectors += (device_class.get("spec") or {}).get("selectors") or ()
        return all(self._matches(selector, driver, device) for selector in selectors)

    def _matches(self, selector: Object, driver: str, device: Object) -> bool:
        """A selector that fails selects nothing."""
        from kubeskew.apimachinery.cel.devices import compile_selector, device_value

        try:
            compiled = compile_selector((selector.get("cel") or {}).get("expression") or "", self._features)
            return compiled.matches(device_value(driver, device, self._features))
        except CELError:
            return False


class TaintedSlices:
    """Adds the taints of rules to slices before they are indexed."""

    def __init__(self, index: SliceIndex, rules: TaintRules) -> None:
        self._index = index
        self._rules = rules
        self._slices: dict[str, tuple[Object, Object]] = {}  # by name: as published, and as in the index

    def set_slice(self, obj: Object) -> None:
        tainted = self._rules.patched(obj)
        self._slices[obj["metadata"]["name"]] = (obj, tainted)
        self._index.set_slice(tainted)

    def remove_slice(self, obj: Object) -> None:
        self._slices.pop(obj["metadata"]["name"], None)
        self._index.remove_slice(obj)

    def set_rule(self, rule: Object) -> Sequence[tuple[Object, Object]]:
        """Pairs the slices that a new rule changes, before and after."""
        self._rules.set_rule(rule)
        return self.refresh(always=True)

    def remove_rule(self, rule: Object) -> Sequence[tuple[Object, Object]]:
        self._rules.remove_rule(rule)
        return self.refresh(always=True)

    def refresh(self, *, always: bool = False) -> Sequence[tuple[Object, Object]]:
        """Applies the rules again, if there are any, because a class that they name may have changed."""
        changed: list[tuple[Object, Object]] = []
        if not (always or self._rules):
            return changed
        for name, (published, before) in self._slices.items():
            after = self._rules.patched(published)
            if after != before:
                self._slices[name] = (published, after)
                self._index.set_slice(after)
                changed.append((before, after))
        return changed


def _selector(rule: Object) -> Object:
    return (rule.get("spec") or {}).get("deviceSelector") or {}


def _names_pool(selector: Object, spec: Object) -> bool:
    return selector.get("driver") in (None, spec["driver"]) and selector.get("pool") in (
        None,
        spec["pool"]["name"],
    )

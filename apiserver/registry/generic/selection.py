"""Selects the objects of a list or watch by the client's selectors, over labels and selectable fields."""

from collections.abc import Callable
from dataclasses import dataclass

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.http.parameters import FieldSelector, ListOptions, selectors
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.registry.generic.registry import Registry
from kubeskew.apiserver.storage.records import Entry


@dataclass(slots=True, eq=False)
class Selection:
    """`name` is the one name that can match, if that is known, and `namespace` the one namespace, of the path
    or a selector."""

    registry: Registry
    labels: LabelSelector
    fields: FieldSelector
    name: str
    namespace: str | None
    is_all: bool  # nothing is left out
    continues: bool = False  # a list goes on, of which neither is known (storage/selection_predicate.go)

    @property
    def is_single(self) -> bool:
        placed = self.namespace is not None or not self.registry.resource.namespaced
        return bool(self.name) and placed and not self.continues

    @property
    def is_indexed(self) -> bool:
        """Upstream's watch cache has an index by which it finds what is selected."""
        indexed = self.registry.strategy.indexed_field
        return bool(indexed) and self.fields.exact_match(indexed) is not None

    @property
    def filter(self) -> Callable[[Entry], bool] | None:
        """None means that everything is wanted."""
        return None if self.is_all else self.matches_entry

    @property
    def terms(self) -> int:
        """An object is compared with this number of conditions."""
        return len(self.labels.requirements) + len(self.fields.terms)

    def matches(self, value: bytes, revision: int) -> bool:
        found = self.registry.selectable(value, revision)
        return self.labels.matches(found.labels) and self.fields.matches(found.fields)

    def matches_entry(self, entry: Entry) -> bool:
        return self.matches(entry.value, entry.revision)


async def selection(request: Request, registry: Registry, options: ListOptions) -> Selection:
    """Selectors may be as long as a request's head, and take a second; raises 400."""
    size = len(options.label_selector) + len(options.field_selector)
    if not size:
        return _parsed(request, registry, options)
    return await offload(size, lambda: _parsed(request, registry, options))


def _parsed(request: Request, registry: Registry, options: ListOptions) -> Selection:
    labels, fields = selectors(options)
    name = chosen = ""
    if fields.terms:
        known = _known(registry, request.info.group)
        for term in fields.terms:
            if term.field not in known:
                raise errors.bad_request(_unknown(registry, request.info.version, term.field))
        name = fields.exact_match("metadata.name") or ""
        chosen = fields.exact_match("metadata.namespace") or ""
    in_path = request.info.parts[1] if len(request.info.parts) > 1 else ""
    if in_path and fields.is_empty():
        fields = FieldSelector.parse(f"metadata.name={in_path}")
    elif in_path and name != in_path:
        raise errors.bad_request("fieldSelector metadata.name doesn't match requested name")
    continues = bool(options.continue_token)
    namespace = ""
    if registry.resource.namespaced:  # a namespace is in itself, and in none
        namespace = request.info.namespace or ("" if continues else chosen)
    is_all = labels.is_empty() and fields.is_empty()
    return Selection(registry, labels, fields, in_path or name, namespace or None, is_all, continues)


def _known(registry: Registry, group: str) -> set[str]:
    """Kinds without a namespace have no `metadata.namespace` if they name their own fields."""
    resource = registry.resource
    own = registry.strategy.labels_in(group, registry.services.features)
    if not resource.namespaced and (own or resource.custom):
        return {"metadata.name", *own}
    return {"metadata.name", "metadata.namespace", *own}


def _unknown(registry: Registry, version: str, label: str) -> str:
    resource = registry.resource
    if resource.group_resource == GroupResource("batch", "jobs"):
        return f'field label "{label}" not supported for Job'
    if resource.group == "resource.k8s.io" and resource.plural in {"noderesourceslices", "resourceslices"}:
        return f"field label not supported for {resource.group}/{version}, Kind={resource.kind}: {label}"
    if registry.strategy.field_labels or resource.custom:
        return f"field label not supported: {label}"
    return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'

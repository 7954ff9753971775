"""Holds what serving a custom resource takes beside what every resource has."""

from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apiserver.apiextensions.json_path import JSONPath
from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.features import RequestFeatures
from kubeskew.apiserver.storage.interfaces import Watch
from kubeskew.apiserver.structuralschema.resources import StructuralResource

_numbers = count(1)


class ServedDefinition(Protocol):
    """Tells what of a definition serving its objects takes."""

    watches: dict[Watch, None]  # of its objects

    @property
    def webhook(self) -> Object | None:
        """Returns the conversion webhook, None if versions differ in their name only."""

    @property
    def is_terminating(self) -> bool:
        """Decides whether its objects are being deleted before it, as a condition says."""

    @property
    def is_deleted(self) -> bool:
        """Decides whether somebody has deleted it; finalizers keep it."""

    def resource_of(self, gvk: GroupVersionKind) -> Resource | None:
        """Returns the resource of a kind that the definition has, served or not."""


@dataclass(frozen=True, slots=True, eq=False)
class CustomResource(StructuralResource):
    """A version of a custom resource, with what serving it takes beside its schema."""

    definition: ServedDefinition | None = None
    paths: tuple[JSONPath, ...] = ()  # of the columns
    scale: ScalePaths | None = None
    warning: str = ""  # of a deprecated version
    list_name: str = ""
    number: int = field(
        default_factory=lambda: next(_numbers)
    )  # the key of caches, since a definition may be large

    @property
    def list_kind(self) -> str:
        return self.list_name


def takes_nothing_new(resource: Resource, features: RequestFeatures) -> bool:
    """Decides whether no object of a resource may be created, as its definition goes
    (customresource_handler.go, `terminating`)."""
    if not isinstance(resource, CustomResource) or resource.definition is None:
        return False
    definition = resource.definition
    return definition.is_terminating or (definition.is_deleted and not features.new_after_cleanup)

"""Rows of Tables by the names of their columns: for tests."""

from datetime import UTC, datetime
from functools import cache
from typing import Any

from kubeskew.apimachinery.catalogue import Catalogue, catalogue_for
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.registry.tables import table as tables

NOW = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)
FIVE_MINUTES_AGO = "2026-07-01T11:55:00Z"
TWO_HOURS_AGO = "2026-07-01T09:59:00Z"  # prints as 121m


@cache
def everything(minor: int = 36) -> Catalogue:
    """The catalogue of a release with all its alphas."""
    version = Version(minor)
    gates = FeatureGates.parse(version, "AllAlpha=true,AllBeta=true")
    return catalogue_for(version, gates, {"api/all": True})


def resource(api_version: str, kind: str, minor: int = 36) -> Resource:
    group, _, version = api_version.rpartition("/")
    found = everything(minor).by_kind(group, version, kind)
    assert found is not None
    return found


def table(api_version: str, kind: str, *objects: dict[str, Any], minor: int = 36, **options: Any) -> Any:
    """A Table of objects, which are named `x` and five minutes old if they do not say otherwise."""
    full = [
        {
            "apiVersion": api_version,
            "kind": kind,
            **obj,
            "metadata": {"name": "x", "creationTimestamp": FIVE_MINUTES_AGO, **obj.get("metadata", {})},
        }
        for obj in objects
    ]
    chosen = {"metadata": {"resourceVersion": "7"}, "now": NOW, **options}
    return tables.render(resource(api_version, kind, minor), full, **chosen)


def row(of: str, obj: dict[str, Any], minor: int = 36) -> dict[str, Any]:
    """The cells of one object; `of` is its API version and kind, as `apps/v1 Deployment`."""
    made = table(*of.split(" "), obj, minor=minor)
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=False))

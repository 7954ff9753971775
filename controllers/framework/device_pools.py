"""Pools of devices, as slices, results of allocations and taint rules name them."""

from typing import NamedTuple

from kubeskew.apimachinery.objects import Object


class Pool(NamedTuple):
    driver: str
    name: str


def pool_of(item: Object) -> Pool:
    if "spec" in item:
        return Pool(item["spec"]["driver"], item["spec"]["pool"]["name"])
    return Pool(item["driver"], item["pool"])


def results(claim: Object) -> list[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: list[Object] = (allocation.get("devices") or {}).get("results") or []
    return found


def selects(rule: Object, pool: Pool, device: str) -> bool:
    """Rules without a selector select nothing."""
    selector = rule["spec"].get("deviceSelector")
    if selector is None:
        return False
    named = {"driver": pool.driver, "pool": pool.name, "device": device}
    return all(selector.get(field) in (None, value) for field, value in named.items())

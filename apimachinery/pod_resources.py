"""Computes what the containers of a pod need together.

Source: k8s.io/component-helpers/resource/helpers.go (PodRequests), 1.36.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from kubeskew.apimachinery.quantity import Quantity

_T = TypeVar("_T", int, Quantity)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Returns whether an init container is restartable: it keeps running beside the regular ones."""
    return bool(container.get("restartPolicy") == "Always")


def needed_at_once(
    containers: Iterable[Mapping[str, _T]], init_containers: Iterable[tuple[bool, Mapping[str, _T]]]
) -> dict[str, _T]:
    """Returns the most that is needed at any time, by resource.

    That is the sum of regular containers and sidecars, or the largest init container with the sidecars
    started before it. An init container is given as (whether it is a sidecar, its amounts).
    """
    total: dict[str, _T] = {}
    for amounts in containers:
        _add(total, amounts)
    sidecars: dict[str, _T] = {}
    peak: dict[str, _T] = {}
    for sidecar, amounts in init_containers:
        if sidecar:
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise(peak, sidecars)
        else:
            step = dict(sidecars)
            _add(step, amounts)
            _raise(peak, step)
    _raise(total, peak)
    return total


def _add(total: dict[str, _T], more: Mapping[str, _T]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, _T], least: Mapping[str, _T]) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount

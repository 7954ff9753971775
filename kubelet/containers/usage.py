"""Says how much processor time and memory a container uses: nothing runs that could be measured.

Annotations of the pod say so, for each of its containers or, with `.CONTAINER` appended to the key, for one;
they count from the moment in which they are changed:

    kubelet.kubeskew.io/cpu-usage: 250m       cores, as a quantity
    kubelet.kubeskew.io/memory-usage: 64Mi    the working set, in bytes

Without them a container uses a tenth of the processor time that it requests and half of the memory, or a
little if it requests none; by its name a bit more or less, the same every time.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.acting import PREFIX, annotation

CPU, MEMORY = "cpu-usage", "memory-usage"
_IDLE_CORES, _IDLE_BYTES = 0.002, 12 << 20  # of a container without requests
_PAGE = 4096


class Demand(NamedTuple):
    """Holds what a container uses while it runs: cores, and bytes of memory."""

    cores: float
    memory: int


def demand_of(pod: Object, spec: Object) -> Demand:
    """Returns what a container of the pod uses; an annotation that is no amount counts as none."""
    name = f"{pod_spec.namespace_of(pod)}/{pod_spec.name_of(pod)}/{spec['name']}"
    share = 0.8 + zlib.crc32(name.encode()) % 400 / 1000  # 0.8 … 1.2
    cores, memory = _amount(annotation(pod, spec, CPU)), _amount(annotation(pod, spec, MEMORY))
    if cores is None:
        cores = max(requested(spec, "cpu") / 10, _IDLE_CORES) * share
    if memory is None:
        memory = int(max(requested(spec, "memory") / 2, _IDLE_BYTES) * share) // _PAGE * _PAGE
    return Demand(cores, max(int(memory), _PAGE))


def errors_of(pod: Object) -> Iterator[str]:
    """Yields what is wrong with the pod's annotations of usage."""
    names = [spec["name"] for spec in pod_spec.all_containers(pod)]
    for key, value in sorted((pod["metadata"].get("annotations") or {}).items()):
        name, _, container = key.removeprefix(PREFIX).partition(".")
        if not key.startswith(PREFIX) or name not in {CPU, MEMORY}:
            continue
        if container and container not in names:
            yield f"annotation {key}: the pod has no container {container}"
        elif _amount(value) is None:
            yield f'annotation {key}: "{value}" is no amount such as {"250m" if name == CPU else "64Mi"}'


def requested(spec: Object, resource: str, kind: str = "requests") -> float:
    """Returns a container's request or limit of a resource; 0 if it has none."""
    amount = ((spec.get("resources") or {}).get(kind) or {}).get(resource)
    return float(Quantity.parse(str(amount)).decimal()) if amount is not None else 0.0


def _amount(text: str | None) -> float | None:
    """Returns the number that a quantity stands for; None if it is none, or negative."""
    if text is None:
        return None
    try:
        amount = Quantity.parse(text)
    except QuantityError:
        return None
    return float(amount.decimal()) if amount.sign() >= 0 else None

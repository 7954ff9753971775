"""Makes the cells that `kubectl get` shows of Endpoints objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.subjects import (
    NONE,
    Cells,
    Subject,
    shortened,
)


def endpoints(subject: Subject) -> Cells:
    subsets = subject.items("subsets")
    found = [
        _host_port(address.get("ip", ""), port)
        for subset in subsets
        for port in subset.get("ports") or [None]
        for address in subset.get("addresses") or ()
    ]
    return {"Endpoints": shortened(found) if subsets else NONE}


def _host_port(address: str, port: Object | None) -> str:
    if port is None:
        return address
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{port.get('port', 0)}"

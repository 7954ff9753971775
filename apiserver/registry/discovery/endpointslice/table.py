"""Makes the cells that `kubectl get` shows of EndpointSlice objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.subjects import (
    UNSET,
    Cells,
    Subject,
    shortened,
)


def endpoint_slice(subject: Subject) -> Cells:
    addresses = [
        address for endpoint in subject.items("endpoints") for address in endpoint.get("addresses") or ()
    ]
    return {
        "AddressType": subject.text("addressType"),
        "Ports": shortened([_port_or_name(port) for port in subject.items("ports")]) or UNSET,
        "Endpoints": shortened(addresses) or UNSET,
    }


def _port_or_name(port: Object) -> str:
    number, name = port.get("port"), port.get("name")
    if number is not None:
        return str(number)
    return "*" if name is None else str(name)

"""Services and slices for tests."""

from collections.abc import Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.host.network.endpoints import SERVICE_NAME


def service(name: str, cluster_ip: str = "10.96.7.7", **spec: object) -> Object:
    ports = spec.pop("ports", [{"name": "http", "port": 80, "protocol": "TCP"}])
    return {
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"type": "ClusterIP", "clusterIP": cluster_ip, "ports": ports, **spec},
    }


def endpoint(address: str, *, node: str = "node-1", hostname: str = "", **conditions: bool) -> Object:
    named = {"hostname": hostname} if hostname else {}
    return {"addresses": [address], "conditions": conditions, "nodeName": node, **named}


def endpoint_slice(
    name: str, *endpoints: Object, port: int = 8080, port_name: str = "http", protocol: str = "TCP"
) -> Object:
    return {
        "metadata": {
            "namespace": "ns",
            "name": f"{name}-{port}-{protocol.lower()}",
            "labels": {SERVICE_NAME: name},
        },
        "addressType": "IPv4",
        "endpoints": [*endpoints],
        "ports": [{"name": port_name, "port": port, "protocol": protocol}],
    }


class Tables:
    def __init__(self, services: Sequence[Object], slices: Sequence[Object] = ()) -> None:
        self.services = [*services]
        self.all_slices = [*slices]

    def service(self, namespace: str, name: str) -> Object | None:
        wanted = {"namespace": namespace, "name": name}
        return next((one for one in self.services if one["metadata"] == wanted), None)

    def slices(self, namespace: str, name: str) -> list[Object]:
        return [one for one in self.all_slices if one["metadata"]["labels"][SERVICE_NAME] == name]

    def has_namespace(self, name: str) -> bool:
        return name in {"ns", "default"}

    def of_address(self, address: str) -> list[Object]:
        return [one for one in self.services if one["spec"].get("clusterIP") == address]

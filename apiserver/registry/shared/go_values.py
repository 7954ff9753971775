"""Prints structs as Go's `%+v`."""

from kubeskew.apimachinery.objects import Object


def container_port(port: Object) -> str:
    shown = {
        "Name": port.get("name") or "",
        "HostPort": port.get("hostPort") or 0,
        "ContainerPort": port.get("containerPort") or 0,
        "Protocol": port.get("protocol") or "",
        "HostIP": port.get("hostIP") or "",
    }
    return f"{{{' '.join(f'{name}:{value}' for name, value in shown.items())}}}"

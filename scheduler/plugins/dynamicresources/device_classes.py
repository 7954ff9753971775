"""The device classes of the cluster, by name."""

from kubeskew.apimachinery.objects import Object


class DeviceClasses:
    """Classes of the v1 shape."""

    def __init__(self) -> None:
        self._classes: dict[str, Object] = {}

    def set_class(self, device_class: Object) -> None:
        self._classes[device_class["metadata"]["name"]] = device_class

    def remove_class(self, device_class: Object) -> None:
        self._classes.pop(device_class["metadata"]["name"], None)

    def get(self, name: str) -> Object | None:
        return self._classes.get(name)

    def device_class(self, name: str) -> Object:
        """Returns the class; raises LookupError with the text that users see."""
        found = self._classes.get(name)
        if found is None:
            raise LookupError(f'deviceclass.resource.k8s.io "{name}" not found')
        return found

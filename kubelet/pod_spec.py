"""Reads a pod: small functions of its spec and status that several modules need."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar, needed_at_once
from kubeskew.apimachinery.quantity import Quantity

DEFAULT_GRACE_SECONDS = 30
RESTART_ALL = "RestartAllContainers"  # the action of a rule for a container's end


def uid_of(pod: Object) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def namespace_of(pod: Object) -> str:
    namespace: str = pod["metadata"]["namespace"]
    return namespace


def name_of(pod: Object) -> str:
    name: str = pod["metadata"]["name"]
    return name


def full_name(pod: Object) -> str:
    """A pod's name in events and back-off messages is `name_namespace(uid)`."""
    return f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"


def phase_of(pod: Object) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def mapped_resources(pod: Object) -> frozenset[tuple[str, str]]:
    """Pairs (container, resource) are the extended resources that the pod's status maps to its claim."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return frozenset(
        (mapping["containerName"], mapping["resourceName"]) for mapping in status.get("requestMappings") or ()
    )


def is_static(pod: Object) -> bool:
    """A static pod's source is another than the API, as its mirror says."""
    annotations = pod["metadata"].get("annotations") or {}
    source: str = annotations.get("kubernetes.io/config.source", "api")
    return source != "api"


def containers(pod: Object) -> list[Object]:
    return pod["spec"].get("containers") or []


def init_containers(pod: Object) -> list[Object]:
    return pod["spec"].get("initContainers") or []


def ephemeral_containers(pod: Object) -> list[Object]:
    return pod["spec"].get("ephemeralContainers") or []


def all_containers(pod: Object) -> list[Object]:
    """Init containers come first, then regular ones, then ephemeral ones."""
    return [*init_containers(pod), *containers(pod), *ephemeral_containers(pod)]


def field_path(pod: Object, name: str) -> str:
    kind = "initContainers"
    for field, specs in (("containers", containers(pod)), ("ephemeralContainers", ephemeral_containers(pod))):
        if any(container["name"] == name for container in specs):
            kind = field
    return f"spec.{kind}{{{name}}}"


def restart_policy(pod: Object) -> str:
    return pod["spec"].get("restartPolicy") or "Always"


def is_deleted(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def grace_seconds(pod: Object) -> int:
    """A deletion's own period comes before that of the pod's spec; 30 seconds without either."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    if asked is None:
        asked = pod["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if asked is None else int(asked)


def requests_of(container: Object) -> dict[str, Quantity]:
    found = (container.get("resources") or {}).get("requests") or {}
    return {name: Quantity.parse(str(amount)) for name, amount in found.items()}


def pod_requests(pod: Object) -> dict[str, int]:
    """Computes what the pod takes from its node, in thousandths, with pod-level requests and overhead."""
    total = needed_at_once(
        map(_requests_in_thousandths, containers(pod)),
        ((is_sidecar(container), _requests_in_thousandths(container)) for container in init_containers(pod)),
    )
    total.update(_requests_in_thousandths(pod["spec"]))
    for name, amount in _thousandths(pod["spec"].get("overhead")).items():
        total[name] = total.get(name, 0) + amount
    return total


def _requests_in_thousandths(container: Object) -> dict[str, int]:
    """The container may also be a pod's spec, which has requests of its own."""
    return _thousandths((container.get("resources") or {}).get("requests"))


def _thousandths(quantities: Object | None) -> dict[str, int]:
    return {name: Quantity.parse(str(text)).milli_value() for name, text in (quantities or {}).items()}


def qos_class(pod: Object) -> str:
    """The API server has set it, as a rule.

    Else it is computed (k8s.io/kubernetes/pkg/apis/core/v1/helper/qos).
    """
    known = (pod.get("status") or {}).get("qosClass")
    if known:
        return str(known)
    guaranteed, any_resource = True, False
    for container in [*containers(pod), *init_containers(pod)]:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            any_resource |= name in requests or name in limits
            guaranteed &= name in limits and str(requests.get(name, limits[name])) == str(limits[name])
    if not any_resource:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"

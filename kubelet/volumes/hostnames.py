"""The name of a pod's machine as its containers see it.

Source: pkg/kubelet/kubelet_pods.go (GeneratePodHostNameAndDomain), 1.36.
"""

from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec

_LONGEST = 63


class Hostname(NamedTuple):
    name: str
    domain: str  # empty without a subdomain

    @property
    def full(self) -> str:
        return f"{self.name}.{self.domain}" if self.domain else self.name


def pod_hostname(pod: Object, cluster_domain: str, *, may_override: bool) -> Hostname:
    """The API server has checked the names. `may_override`: spec.hostnameOverride counts."""
    spec = pod["spec"]
    if may_override and spec.get("hostnameOverride") is not None:
        return Hostname(_shortened(spec["hostnameOverride"]), "")
    name = _shortened(spec.get("hostname") or pod_spec.name_of(pod))
    subdomain = spec.get("subdomain")
    if not subdomain:
        return Hostname(name, "")
    return Hostname(name, f"{subdomain}.{pod_spec.namespace_of(pod)}.svc.{cluster_domain}")


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else name[:_LONGEST].rstrip("-.")

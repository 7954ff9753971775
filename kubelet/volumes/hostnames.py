"""The name of a pod's machine as its containers see it.

Source: pkg/kubelet/kubelet_pods.go (GeneratePodHostNameAndDomain); pkg/kubelet/util/util.go, 1.36.
"""

from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError

_LONGEST, _LONGEST_FULL = 63, 64


class Hostname(NamedTuple):
    name: str
    domain: str  # empty without a subdomain

    def of_kernel(self, *, is_full: bool) -> str:
        """The name that the kernel gives: with the domain if the pod wants it so. Raises ConfigError."""
        if not is_full or not self.domain:
            return self.name
        full = f"{self.name}.{self.domain}"
        if len(full) > _LONGEST_FULL:
            raise ConfigError(
                f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long "
                f"({_LONGEST_FULL} characters is the max, {len(full)} characters requested)"
            )
        return full


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

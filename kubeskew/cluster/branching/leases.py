"""Releases the leases of leaders that a branch of the log still names, though they never lived in it.

Without that, the components of a fork would wait until a lease ends that nobody renews.
"""

import json

from kubeskew.apimachinery.client.leader import released
from kubeskew.apimachinery.clock import Clock
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.state import Process

_PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
_LEASES = ("kube-controller-manager", "kube-scheduler")


async def release(probes: Probes, server: Process, clock: Clock) -> None:
    """Gives every leader's lease back through an API server, as its holder does when it stops. Raises
    ClusterError."""
    for name in _LEASES:
        url = server.url(f"{_PATH}{name}")
        status, text = await probes.request("GET", url)
        if status == 404:
            continue
        lease = json.loads(text) if status == 200 else {}
        if status == 200 and (lease.get("spec") or {}).get("holderIdentity"):
            lease["spec"] = released(lease["spec"], clock.now())
            status, text = await probes.request("PUT", url, lease)
        if status != 200:
            raise ClusterError(f"cannot release the lease {name}: {text}")

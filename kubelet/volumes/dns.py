"""The resolver configuration of pods.

Source: pkg/kubelet/network/dns/dns.go, 1.36.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.runtime_service import DNSConfig

_MOST_SERVERS, _MOST_SEARCHES = 3, 32
_LONGEST_SEARCH, _LONGEST_LINE = 253, 2048
_CLUSTER_OPTIONS = ("ndots:5",)


class DNSEvent(NamedTuple):
    """A warning about a pod."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DNSSettings:
    """The node's settings; `host` is what its own resolv.conf says."""

    cluster_servers: Sequence[str]
    cluster_domain: str
    host: DNSConfig


def parse_resolv_conf(text: str) -> DNSConfig:
    """Servers accumulate; the last line of searches counts; options replace those of their name."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.split("\n"):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if fields[0] == "nameserver" and len(fields) > 1:
            servers.append(fields[1])
        elif fields[0] == "search":
            searches = [name.removesuffix(".") for name in fields[1:] if name != "."]
        elif fields[0] == "options":
            options |= {option.split(":")[0]: option for option in fields[1:]}
    return DNSConfig(servers, searches, [*options.values()])


def pod_dns(pod: Object, settings: DNSSettings) -> tuple[DNSConfig, list[DNSEvent]]:
    """The pod's configuration, within the limits of resolvers, and what its owner is warned of."""
    events: list[DNSEvent] = []
    base = _base(pod, settings, events)
    own = pod["spec"].get("dnsConfig")
    if own is not None:
        base = DNSConfig(
            _once([*base.servers, *(own.get("nameservers") or ())]),
            _once([*base.searches, *(own.get("searches") or ())]),
            _merged(base.options, own.get("options") or ()),
        )
    return DNSConfig(_fitting(base.servers, events), _fit(base.searches, events), base.options), events


def _base(pod: Object, settings: DNSSettings, events: list[DNSEvent]) -> DNSConfig:
    policy = pod["spec"].get("dnsPolicy") or "ClusterFirst"
    if policy == "None":
        return DNSConfig()
    is_default = policy == "Default" or (policy == "ClusterFirst" and pod["spec"].get("hostNetwork"))
    if not is_default and settings.cluster_servers:
        searches = [*_cluster_searches(pod, settings.cluster_domain), *settings.host.searches]
        return DNSConfig(list(settings.cluster_servers), _once(searches), _CLUSTER_OPTIONS)
    if not is_default:
        text = (
            'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" '
            'policy. Falling back to "Default" policy.'
        )
        events.append(DNSEvent("MissingClusterDNS", f'pod: "{pod_spec.full_name(pod)}". {text}'))
    return settings.host


def _cluster_searches(pod: Object, domain: str) -> list[str]:
    return [f"{pod_spec.namespace_of(pod)}.svc.{domain}", f"svc.{domain}", domain] if domain else []


def _once(names: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(names)]


def _merged(options: Sequence[str], own: Sequence[Object]) -> list[str]:
    """Upstream's order is random; here it is that of their first mention."""
    values = {name: value for name, _, value in (option.partition(":") for option in options)}
    values |= {option["name"]: option.get("value") or "" for option in own}
    return [f"{name}:{value}" if value else name for name, value in values.items()]


def _fitting(servers: Sequence[str], events: list[DNSEvent]) -> Sequence[str]:
    if len(servers) <= _MOST_SERVERS:
        return servers
    kept = servers[:_MOST_SERVERS]
    text = f"some nameservers have been omitted, the applied nameserver line is: {' '.join(kept)}"
    events.append(DNSEvent("DNSConfigForming", f"Nameserver limits were exceeded, {text}"))
    return kept


def _fit(searches: Sequence[str], events: list[DNSEvent]) -> Sequence[str]:
    kept = [name for name in searches[:_MOST_SEARCHES] if len(name) <= _LONGEST_SEARCH]
    while len(" ".join(kept)) > _LONGEST_LINE:
        kept.pop()
    if len(kept) < len(searches):
        text = f"some search paths have been omitted, the applied search line is: {' '.join(kept)}"
        events.append(DNSEvent("DNSConfigForming", f"Search Line limits were exceeded, {text}"))
    return kept

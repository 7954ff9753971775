"""Holds the rules of a pod's names, of how it resolves names, and of what it shares with its node.

Source: pkg/apis/core/validation/validation.go (validatePodDNSConfig, ValidateHostAliases, validateHostUsers,
validatePodHostName, validatePodHostNetworkDeps), 1.36.
"""

from collections.abc import Iterator
from dataclasses import replace

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, required, too_long
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.addresses import ip_errors
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.windows import all_containers

_MAX_SERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARS = 2048
_MAX_HOST_NAME = 64
_OLD_ALIAS = "must be valid IP address"


def dns_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or []
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(child(path, "nameservers"), text)
            return
    if config is None:
        return
    at = child(path, "nameservers")
    if len(servers) > _MAX_SERVERS:
        yield invalid(at, servers, f"must not have more than {_MAX_SERVERS} nameservers")
    for position, server in enumerate(servers):
        yield from ip_errors(index(at, position), server, strict=options.strict_addresses)
    yield from _search_errors(config.get("searches") or [], child(path, "searches"), options)
    for position, option in enumerate(config.get("options") or []):
        if not option.get("name"):
            yield required(index(child(path, "options"), position), "must not be empty")


def _search_errors(searches: list[str], path: str, options: PodOptions) -> Iterator[FieldError]:
    if len(searches) > _MAX_SEARCHES:
        yield invalid(path, searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_CHARS:
        text = f"must not have more than {_MAX_SEARCH_CHARS} characters (including spaces) in the search list"
        yield invalid(path, searches, text)
    check = names.dns1123_subdomain_underscore if options.relaxed_dns else names.dns1123_subdomain
    for position, search in enumerate(searches):
        if search == "." and options.relaxed_dns:
            continue
        plain = search.removesuffix(".")
        yield from (invalid(index(path, position), plain, text) for text in check(plain))


def alias_errors(aliases: list[Object], path: str, options: PodOptions) -> Iterator[FieldError]:
    """Checks the addresses and names of host aliases; releases before 1.30 name no positions."""
    numbered = options.features.numbers_aliases
    for position, alias in enumerate(aliases):
        where = index(path, position) if numbered else path
        address = alias.get("ip") or ""
        problems = ip_errors(child(where, "ip"), address, strict=options.strict_addresses)
        yield from problems if numbered else (replace(one, detail=_OLD_ALIAS) for one in problems)
        for number, host in enumerate(alias.get("hostnames") or []):
            at = child(where, "hostnames")
            at = index(at, number) if numbered else at
            yield from (invalid(at, host, text) for text in names.dns1123_subdomain(host))


def host_network_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """Checks that host ports equal container ports on the node's network; templates may leave them out."""
    for number, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (options.is_pod or host) and host != (port.get("containerPort") or 0):
                at = index(child(index(child(path, "containers"), number), "ports"), position)
                text = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(child(at, "hostPort"), host, text)


def host_user_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """Checks that a pod with users of its own shares no other namespace with its node."""
    field = "hostUsers" if options.features.host_users_wording else "pod.Spec.HostUsers"
    text = f"when `{field}` is false"
    if spec.get("hostNetwork") and not options.host_network_users:
        yield forbidden(child(path, "hostNetwork"), text)
    for name, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            yield forbidden(child(path, shown), text)
    if options.features.host_users_devices:
        for container, at in all_containers(spec, path):
            if container.get("volumeDevices"):
                yield forbidden(child(at, "volumeDevices"), text)


def host_name_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Checks `hostnameOverride`."""
    name, at = spec["hostnameOverride"], child(path, "hostnameOverride")
    if spec.get("setHostnameAsFQDN"):
        yield forbidden(at, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield forbidden(at, "may not be specified when hostNetwork is true")
    if len(name.encode()) > _MAX_HOST_NAME:
        yield too_long(at, _MAX_HOST_NAME)
    yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))

"""Answers to questions about the names of services and pods, as CoreDNS gives them with kubeadm's Corefile.

Names outside of the cluster's domain do not exist: nothing leads there.

Source: the specification "Kubernetes DNS-Based Service Discovery", 1.1.0; CoreDNS's plugin `kubernetes`;
cmd/kubeadm/app/phases/addons/dns/manifests.go, 1.36; RFC 1035, 2308, 2782, 6891.
"""

import struct
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.host.network.endpoints import Services, is_headless, is_ipv4

DOMAIN = "cluster.local"
A, NS, CNAME, SOA, PTR, TXT, AAAA, SRV, OPT = 1, 2, 5, 6, 12, 16, 28, 33, 41
NO_ERROR, FORMAT_ERROR, NO_NAME, NOT_IMPLEMENTED, REFUSED = 0, 1, 3, 4, 5
_TTL = 30
_INTERNET, _ANY = 1, 255
_HEAD = struct.Struct("!HHHHHH")
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION, _RECURSION_THERE = 1 << 15, 1 << 10, 1 << 9, 1 << 8, 1 << 7
_OPCODE = 0xF << 11
_UDP_LEAST, _UDP_OURS = 512, 4096
_LABEL_MAX, _NAME_MAX, _POINTER = 63, 255, 0xC0
_CHAIN_MAX = 8
_SCHEMA_VERSION = b"\x051.1.0"
_PROTOCOLS = ("_tcp", "_udp", "_sctp")


class Question(NamedTuple):
    name: str  # in lower case, without the last dot
    kind: int


class Record(NamedTuple):
    name: str
    kind: int
    data: bytes


class Reply(NamedTuple):
    code: int
    records: tuple[Record, ...] = ()
    extra: tuple[Record, ...] = ()


class _Target(NamedTuple):
    """An address of a service, with the name and port that SRV gives it."""

    name: str
    address: str
    port: int
    port_name: str
    protocol: str


def resolve(services: Services, question: Question) -> Reply:
    """The answer, without what the message around it needs."""
    name, kind = question
    if name.endswith(".in-addr.arpa"):
        return _reverse(services, question)
    if not _is_of_domain(name):
        return Reply(NO_NAME)
    labels = name.removesuffix(DOMAIN).rstrip(".").split(".") if name != DOMAIN else []
    if not labels:
        records = {NS: Record(name, NS, encoded(f"ns.dns.{DOMAIN}")), SOA: _authority()}
        return Reply(NO_ERROR, (records[kind],) if kind in records else ())
    if labels == ["dns-version"]:
        return Reply(NO_ERROR, (Record(name, TXT, _SCHEMA_VERSION),) if kind == TXT else ())
    if labels == ["ns", "dns"] and kind != A:
        return Reply(NO_ERROR)
    family, namespace, rest = labels[-1], labels[-2] if len(labels) > 1 else "", labels[:-2]
    if family not in _FAMILIES:
        return Reply(NO_NAME)
    if not namespace:
        return Reply(NO_ERROR)
    if not services.has_namespace(namespace):
        return Reply(NO_NAME)
    return _FAMILIES[family](services, question, namespace, rest) if rest else Reply(NO_ERROR)


def _is_of_domain(name: str) -> bool:
    return name == DOMAIN or name.endswith(f".{DOMAIN}")


def _of_pod(_services: Services, question: Question, _namespace: str, labels: list[str]) -> Reply:
    """No pod needs to have that address (`pods insecure`)."""
    address = labels[0].replace("-", ".")
    if len(labels) != 1 or not is_ipv4(address):
        return Reply(NO_NAME)
    return Reply(NO_ERROR, (_address(question.name, address),) if question.kind == A else ())


def _of_service(services: Services, question: Question, namespace: str, labels: list[str]) -> Reply:
    service = services.service(namespace, labels[-1])
    if service is None:
        return Reply(NO_NAME)
    before, base = labels[:-1], f"{labels[-1]}.{namespace}.svc.{DOMAIN}"
    if (service.get("spec") or {}).get("type") == "ExternalName":
        return Reply(NO_NAME) if before else _external(services, question, service)
    targets = [*_targets(services, service, base)]
    if not before:
        if is_headless(service) and not targets:
            return Reply(NO_NAME)
        return _of_targets(question, targets)
    if len(before) == 1 and not before[0].startswith("_"):  # an endpoint's name
        found = [target for target in targets if target.name == question.name and is_headless(service)]
    elif len(before) == 2 and before[1] in _PROTOCOLS:
        wanted = before[0].removeprefix("_"), before[1].removeprefix("_").upper()
        found = [target for target in targets if (target.port_name, target.protocol) == wanted]
    else:
        found = []
    return _of_targets(question, found) if found else Reply(NO_NAME)


_Family = Callable[[Services, Question, str, list[str]], Reply]
_FAMILIES: dict[str, _Family] = {"svc": _of_service, "pod": _of_pod}


def _targets(services: Services, service: Object, base: str) -> Iterator[_Target]:
    metadata, spec = service["metadata"], service["spec"]
    if not is_headless(service):
        address = spec.get("clusterIP") or ""
        for port in (spec.get("ports") or ()) if is_ipv4(address) else ():
            protocol = port.get("protocol") or "TCP"
            yield _Target(base, address, int(port["port"]), port.get("name") or "", protocol)
        return
    for part in services.slices(metadata["namespace"], metadata["name"]):
        if (part.get("addressType") or "IPv4") != "IPv4":
            continue
        for endpoint in part.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            for address in endpoint.get("addresses") or ():
                name = f"{endpoint.get('hostname') or address.replace('.', '-')}.{base}".lower()
                for port in part.get("ports") or [{}]:
                    number, protocol = int(port.get("port") or 0), port.get("protocol") or "TCP"
                    yield _Target(name, address, number, port.get("name") or "", protocol)


def _of_targets(question: Question, targets: list[_Target]) -> Reply:
    if question.kind == A:
        addresses = sorted(dict.fromkeys(target.address for target in targets), key=IPv4Address)
        return Reply(NO_ERROR, tuple(_address(question.name, address) for address in addresses))
    if question.kind != SRV:
        return Reply(NO_ERROR)
    ports = sorted({(target.name, target.port) for target in targets if target.port})
    weight = 100 // len(ports) if ports else 0
    records = (
        Record(question.name, SRV, struct.pack("!HHH", 0, weight, port) + encoded(name))
        for name, port in ports
    )
    extra = sorted({(target.name, target.address) for target in targets if target.port})
    return Reply(NO_ERROR, tuple(records), tuple(_address(*entry) for entry in extra))


def _external(services: Services, question: Question, service: Object) -> Reply:
    """The name that it leads to is resolved as well, if it is one of the cluster's. One that leads to no
    record, in a ring, or by too many others has no records: plugin/backend_lookup.go of CoreDNS.
    """
    target = str(service["spec"].get("externalName") or "").rstrip(".").lower()
    alias = Record(question.name, CNAME, encoded(target))
    if question.kind == CNAME:
        return Reply(NO_ERROR, (alias,))
    records, name = [alias], target
    while _is_of_domain(name):
        following = resolve(services, Question(name, CNAME)).records
        if not following:
            last = resolve(services, Question(name, question.kind))
            return Reply(NO_ERROR, (*records, *last.records), last.extra) if last.records else Reply(NO_ERROR)
        if following[0] in records or len(records) == _CHAIN_MAX:
            return Reply(NO_ERROR)
        records += following
        name = decoded(following[0].data)
    return Reply(NO_ERROR, tuple(records))


def _reverse(services: Services, question: Question) -> Reply:
    address = ".".join(reversed(question.name.removesuffix(".in-addr.arpa").split(".")))
    names = [
        f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.{DOMAIN}"
        for service in services.of_address(address)
    ]
    if not names:
        return Reply(NO_NAME)
    records = (Record(question.name, PTR, encoded(name)) for name in names)
    return Reply(NO_ERROR, tuple(records) if question.kind == PTR else ())


def _address(name: str, address: str) -> Record:
    return Record(name, A, IPv4Address(address).packed)


def _authority() -> Record:
    """For answers without records: it says for how long they hold."""
    numbers = struct.pack("!IIIII", 1, 7200, 1800, 86400, _TTL)
    return Record(DOMAIN, SOA, encoded(f"ns.dns.{DOMAIN}") + encoded(f"hostmaster.{DOMAIN}") + numbers)


# -- messages


def answer(services: Services, query: bytes, *, is_datagram: bool = True) -> bytes:
    """The answer to a message; empty for what deserves none. A datagram that is too short for it says so."""
    if len(query) < _HEAD.size:
        return b""
    number, flags, questions, *_ = _HEAD.unpack_from(query)
    if flags & _RESPONSE:
        return b""
    kept = (flags & (_OPCODE | _RECURSION)) | _RESPONSE | _RECURSION_THERE
    if flags & _OPCODE:
        return _HEAD.pack(number, kept | NOT_IMPLEMENTED, 0, 0, 0, 0)
    try:
        if questions != 1:
            raise ValueError("not one question")
        name, position = _read_name(query, _HEAD.size)
        kind, group = struct.unpack_from("!HH", query, position)
        size = _size_of(query, position + 4)
    except (ValueError, IndexError, struct.error):
        return _HEAD.pack(number, kept | FORMAT_ERROR, 0, 0, 0, 0)
    asked = query[_HEAD.size : position + 4]
    is_ours = group in {_INTERNET, _ANY}
    reply = resolve(services, Question(name.lower(), kind)) if is_ours else Reply(REFUSED)
    if name.lower().endswith(DOMAIN):
        kept |= _AUTHORITATIVE
    authority = () if reply.records or not kept & _AUTHORITATIVE else (_authority(),)
    parts = (reply.records, authority, reply.extra)
    limit = (size or _UDP_LEAST) if is_datagram else 1 << 16
    opt = b"" if size is None else struct.pack("!BHHIH", 0, OPT, _UDP_OURS, 0, 0)
    for given in (parts, (reply.records, authority, ()), ((), (), ())):
        body = b"".join(_packed(record) for part in given for record in part)
        whole = _HEAD.size + len(asked) + len(body) + len(opt)
        if whole <= limit:
            break
    cut = _TRUNCATED if given[0] != reply.records else 0
    counts = [len(part) for part in given]
    counts[2] += 1 if opt else 0
    return _HEAD.pack(number, kept | cut | reply.code, 1, *counts) + asked + body + opt


def _size_of(query: bytes, position: int) -> int | None:
    """The length of datagrams that the client takes, by its OPT record; None without one."""
    _, _, _, answers, authorities, extras = _HEAD.unpack_from(query)
    for _ in range(answers + authorities + extras):
        _, position = _read_name(query, position)
        kind, size, _, length = struct.unpack_from("!HHIH", query, position)
        if kind == OPT:
            return max(int(size), _UDP_LEAST)
        position += 10 + length
    return None


def _packed(record: Record) -> bytes:
    head = struct.pack("!HHIH", record.kind, _INTERNET, _TTL, len(record.data))
    return encoded(record.name) + head + record.data


def encoded(name: str) -> bytes:
    labels = [label.encode("latin-1", "replace")[:_LABEL_MAX] for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def decoded(data: bytes) -> str:
    return _read_name(data, 0)[0]


def _read_name(data: bytes, position: int) -> tuple[str, int]:
    """The name at a position, and the position after it. Raises ValueError and IndexError."""
    labels: list[str] = []
    after = 0
    length = data[position]
    while length:
        if length & _POINTER == _POINTER:
            target = (length & ~_POINTER) << 8 | data[position + 1]
            after = after or position + 2
            if target >= position:
                raise ValueError("a name that points forward")
            position = target
        elif length > _LABEL_MAX:
            raise ValueError("a label of an unknown kind")
        else:
            if position + 1 + length > len(data):
                raise ValueError("a name that breaks off")
            labels.append(data[position + 1 : position + 1 + length].decode("latin-1"))
            position += 1 + length
        if sum(map(len, labels)) + len(labels) > _NAME_MAX:
            raise ValueError("a name is too long")
        length = data[position]
    return ".".join(labels), after or position + 1

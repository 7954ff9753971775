import struct
from ipaddress import IPv4Address

import pytest
from service_tables import Tables, endpoint, endpoint_slice, service

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.host.network import dns
from kubeskew.kubelet.containers.host.network.dns import Question, Reply, resolve


def _alias(name: str, target: str) -> Object:
    return service(name, "", type="ExternalName", externalName=f"{target}.ns.svc.cluster.local")


TABLES = Tables(
    [
        service("web", ports=[{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]),
        service("db", "None"),
        service("empty", "None"),
        service("outside", "", type="ExternalName", externalName="Example.com."),
        _alias("inside", "web"),
        _alias("itself", "itself"),
        _alias("ring-1", "ring-2"),
        _alias("ring-2", "ring-1"),
        _alias("nowhere", "no"),
        *(_alias(f"chain-{number}", f"chain-{number - 1}") for number in range(2, 10)),
        _alias("chain-1", "web"),
    ],
    [
        endpoint_slice(
            "db",
            endpoint("10.244.1.3", hostname="db-0", ready=True),
            endpoint("10.244.1.4", ready=True),
            endpoint("10.244.1.5", ready=False),
        ),
        endpoint_slice("empty", endpoint("10.244.1.6", ready=False)),
    ],
)
WEB, DB = "web.ns.svc.cluster.local", "db.ns.svc.cluster.local"
NOTHING, NO_NAME = [], dns.NO_NAME

CASES: dict[str, tuple[str, int, list[str] | int]] = {
    "a cluster IP": (WEB, dns.A, ["10.96.7.7"]),
    "no address of the other family": (WEB, dns.AAAA, NOTHING),
    "a service that is not there": ("no.ns.svc.cluster.local", dns.A, NO_NAME),
    "a namespace that is not there": ("web.no.svc.cluster.local", dns.A, NO_NAME),
    "a namespace": ("ns.svc.cluster.local", dns.A, NOTHING),
    "all services": ("svc.cluster.local", dns.A, NOTHING),
    "the domain": ("cluster.local", dns.A, NOTHING),
    "another family of names": ("web.ns.no.cluster.local", dns.A, NO_NAME),
    "endpoints of a headless service": (DB, dns.A, ["10.244.1.3", "10.244.1.4"]),
    "an endpoint with a hostname": (f"db-0.{DB}", dns.A, ["10.244.1.3"]),
    "an endpoint without one": (f"10-244-1-4.{DB}", dns.A, ["10.244.1.4"]),
    "an endpoint's address if it has a hostname": (f"10-244-1-3.{DB}", dns.A, NO_NAME),
    "an endpoint that is not ready": (f"10-244-1-5.{DB}", dns.A, NO_NAME),
    "an endpoint of a cluster IP": (f"10-244-1-4.{WEB}", dns.A, NO_NAME),
    "a headless service without ready endpoints": ("empty.ns.svc.cluster.local", dns.A, NO_NAME),
    "a port": (f"_http._tcp.{WEB}", dns.SRV, [f"0 100 80 {WEB}"]),
    "a port by a wrong protocol": (f"_http._udp.{WEB}", dns.SRV, NO_NAME),
    "a port of UDP": (f"_dns._udp.{WEB}", dns.SRV, [f"0 100 53 {WEB}"]),
    "the address behind a port": (f"_http._tcp.{WEB}", dns.A, ["10.96.7.7"]),
    "a port that is not there": (f"_no._tcp.{WEB}", dns.SRV, NO_NAME),
    "ports of a headless service": (
        f"_http._tcp.{DB}",
        dns.SRV,
        [f"0 50 8080 10-244-1-4.{DB}", f"0 50 8080 db-0.{DB}"],
    ),
    "all ports": (WEB, dns.SRV, [f"0 50 53 {WEB}", f"0 50 80 {WEB}"]),
    "an external name": ("outside.ns.svc.cluster.local", dns.CNAME, ["example.com"]),
    "an external name that leads inside": ("inside.ns.svc.cluster.local", dns.A, [WEB, "10.96.7.7"]),
    "an external name that leads to itself": ("itself.ns.svc.cluster.local", dns.A, NOTHING),
    "external names in a ring": ("ring-1.ns.svc.cluster.local", dns.A, NOTHING),
    "an external name that leads to no service": ("nowhere.ns.svc.cluster.local", dns.A, NOTHING),
    "an external name without an address of the family": ("inside.ns.svc.cluster.local", dns.AAAA, NOTHING),
    "external names in a row": (
        "chain-8.ns.svc.cluster.local",
        dns.A,
        [*(f"chain-{number}.ns.svc.cluster.local" for number in range(7, 0, -1)), WEB, "10.96.7.7"],
    ),
    "too many external names": ("chain-9.ns.svc.cluster.local", dns.A, NOTHING),
    "below an external name": ("a.outside.ns.svc.cluster.local", dns.A, NO_NAME),
    "a pod": ("10-244-1-9.ns.pod.cluster.local", dns.A, ["10.244.1.9"]),
    "no pod": ("web.ns.pod.cluster.local", dns.A, NO_NAME),
    "a pod in no namespace": ("10-244-1-9.no.pod.cluster.local", dns.A, NO_NAME),
    "the specification's version": ("dns-version.cluster.local", dns.TXT, ["1.1.0"]),
    "a name of a cluster IP": ("7.7.96.10.in-addr.arpa", dns.PTR, [WEB]),
    "no name of an address": ("1.1.1.10.in-addr.arpa", dns.PTR, NO_NAME),
    "outside": ("example.com", dns.A, NO_NAME),
    "a name with the domain in front": ("web.ns.svc.cluster.local.example.com", dns.A, NO_NAME),
}


def _shown(record: dns.Record) -> str:
    if record.kind == dns.A:
        return str(IPv4Address(record.data))
    if record.kind == dns.SRV:
        return (
            " ".join(map(str, struct.unpack_from("!HHH", record.data))) + f" {dns.decoded(record.data[6:])}"
        )
    return record.data[1:].decode() if record.kind == dns.TXT else dns.decoded(record.data)


@pytest.mark.parametrize("case", CASES)
def test_names(case: str) -> None:
    """Names of services, endpoints and pods lead where the specification says."""
    name, kind, expected = CASES[case]
    reply = resolve(TABLES, Question(name, kind))
    if isinstance(expected, int):
        assert reply == Reply(expected)
    else:
        assert (reply.code, [_shown(record) for record in reply.records]) == (dns.NO_ERROR, expected)


def _query(name: str, kind: int, size: int | None = None, flags: int = 0x100, questions: int = 1) -> bytes:
    opt = b"" if size is None else struct.pack("!BHHIH", 0, dns.OPT, size, 0, 0)
    head = struct.pack("!HHHHHH", 7, flags, questions, 0, 0, 1 if opt else 0)
    return head + dns.encoded(name) + struct.pack("!HH", kind, 1) + opt


def test_answer_as_a_message() -> None:
    """An answer repeats number and question as they came, and is authoritative for the cluster's names."""
    query = _query(WEB.upper(), dns.A)
    message = dns.answer(TABLES, query)
    assert struct.unpack_from("!HHHHHH", message) == (7, 0x8580, 1, 1, 0, 0)
    assert message[12 : len(query)] == query[12:]
    assert message.endswith(b"\0\1\0\1\0\0\0\x1e\0\4\x0a\x60\7\7")


def test_answer_without_records() -> None:
    """Names that are not there, or have no such record, come with the authority, so that it is kept."""
    for name, code in ((f"no.{WEB}", dns.NO_NAME), (WEB, dns.NO_ERROR)):
        message = dns.answer(TABLES, _query(name, dns.AAAA))
        assert struct.unpack_from("!HHHHHH", message)[1:] == (0x8580 | code, 1, 0, 1, 0)


def test_long_answers() -> None:
    """A datagram holds what its client takes; the rest is asked for over TCP."""
    many = [endpoint(f"10.244.{part}.{host}") for part in range(2) for host in range(1, 60)]
    tables = Tables([service("db", "None")], [endpoint_slice("db", *many)])
    for size, is_datagram, answers, cut in (
        (None, True, 0, 0x200),
        (1232, True, 0, 0x200),
        (8000, True, 118, 0),
        (None, False, 118, 0),
    ):
        message = dns.answer(tables, _query(DB, dns.A, size), is_datagram=is_datagram)
        assert len(message) <= (size or 512) or not is_datagram
        assert struct.unpack_from("!HHHHHH", message)[1:4] == (0x8580 | cut, 1, answers)


REFUSED = {
    "no message": (b"1234", None),
    "an answer": (_query(WEB, dns.A, flags=0x8000), None),
    "an update": (_query(WEB, dns.A, flags=5 << 11), dns.NOT_IMPLEMENTED),
    "no question": (_query(WEB, dns.A, questions=0), dns.FORMAT_ERROR),
    "a question that breaks off": (_query(WEB, dns.A)[:-9], dns.FORMAT_ERROR),
    "a name that points at itself": (_query(WEB, dns.A)[:12] + b"\xc0\x0c\0\1\0\1", dns.FORMAT_ERROR),
    "another class": (_query(WEB, dns.A)[:-1] + b"\3", dns.REFUSED),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_messages(case: str) -> None:
    """A message that cannot be answered gets the code that says so, or none."""
    query, code = REFUSED[case]
    message = dns.answer(TABLES, query)
    assert (message[3] & 0xF if message else None) == code

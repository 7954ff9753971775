"""Options that one API server is started with."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeskew.apiserver.serviceaccount import ISSUER

AUTO = "auto"  # number of workers
MOST_WORKERS = 64
AUTOMATIC_MOST = 4  # then the writer is as busy as they


def cores() -> int:
    """The processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def automatic(processors: int) -> int:
    """The number of workers that is fastest on so many processors: one is for clients, one for the writer.

    Measured with 16 connections: a create takes 550 µs of one process; of two workers each 270 µs and 200 µs
    of the writer, a read 170 µs, or 100 µs of each of two. So two workers do twice as much where each process
    has a processor, but on two processors, with the clients, all together 0.7 to 1.1 times as much as one.
    """
    return max(1, min(processors - 2, AUTOMATIC_MOST))


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """The place of a process among the workers of a server, `again` if another one has ended there."""

    number: int = 1
    count: int = 1
    again: bool = False

    @property
    def first(self) -> bool:
        """The first worker has the server's duties apart from answers, and its faults."""
        return self.number == 1

    def share(self, limit: int) -> int:
        """Returns this worker's part of a limit: the parts add up to it, but each has at least 1 of any."""
        part, rest = divmod(limit, self.count)
        return max(part + (self.number <= rest), min(limit, 1))


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Upstream's flags, where they have one; paths may be empty.

    Without a certificate, and a directory to make one in, the server speaks plain HTTP (in tests).
    """

    name: str = "apiserver"
    storage_url: str = "sqlite://"
    bind_address: str = "127.0.0.1"
    secure_port: int = 0
    shared_port: int = 0  # that all servers of a cluster listen on, besides their own; 0: none
    cert_dir: str | None = None  # for a certificate of its own, if none is given; empty: it keeps no files
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    client_ca_file: str = ""
    token_auth_file: str = ""
    requestheader_client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ()
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ()
    requestheader_extra_headers_prefix: tuple[str, ...] = ()
    proxy_client_cert_file: str = ""
    proxy_client_key_file: str = ""
    anonymous_auth: bool = True
    enable_logs_handler: bool = False
    service_account_issuer: tuple[str, ...] = (ISSUER,)  # the first signs
    service_account_jwks_uri: str = ""  # empty: at the server's own address
    service_account_signing_key_file: str = ""
    service_account_key_files: tuple[str, ...] = ()
    api_audiences: tuple[str, ...] = ()  # default: the first issuer
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    service_cluster_ip_range: str = "10.96.0.0/16"
    webhook_services: Mapping[str, str] = field(default_factory=dict)  # NAMESPACE/NAME: HOST:PORT
    kubelet_certificate_authority: str = ""
    kubelet_client_certificate: str = ""
    kubelet_client_key: str = ""
    kubelet_preferred_address_types: tuple[str, ...] = ("InternalIP", "ExternalIP", "Hostname")
    advertise_address: str = "127.0.0.1"
    network_agent: str = ""  # the Unix socket of the cluster's network, if pods have one
    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    shutdown_delay_seconds: float = 0.0
    shutdown_grace_seconds: float = 5.0
    faults_dir: str = ""
    verbosity: int = 0
    enable_admission_plugins: tuple[str, ...] = ()
    disable_admission_plugins: tuple[str, ...] = ()
    worker: WorkerPlace = WorkerPlace()

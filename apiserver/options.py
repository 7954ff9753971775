"""Options that one API server is started with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeskew.apiserver.serviceaccount import ISSUER


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

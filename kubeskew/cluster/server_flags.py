"""The flags that an API server of a cluster gets, emulated or real: both have upstream's names."""

from collections.abc import Mapping

from kubeskew.apimachinery.catalogue.served_resources import known_of
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.state import Process, State, StateDir

SERVICE_RANGE = "10.96.0.0/16"  # kind's default
_KEYS_IN_CLUSTER = "https://kubernetes.default.svc.cluster.local/openid/v1/jwks"


def server_flags(directory: StateDir, state: State, process: Process) -> dict[str, str]:
    """Values by flag: certificates, keys and tokens, and what the cluster's file says of its API."""
    known = known_of(state.runtime_config, Version.parse(process.version))
    runtime_config = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(known.items()))
    return {
        "tls-cert-file": str(directory.pki / "apiserver.crt"),
        "tls-private-key-file": str(directory.pki / "apiserver.key"),
        "client-ca-file": str(directory.ca),
        "token-auth-file": str(directory.pki / "tokens.csv"),
        **_kubelet_client(directory),
        **_front_proxy(directory),
        "service-account-signing-key-file": str(directory.account_key),
        "service-cluster-ip-range": SERVICE_RANGE,
        # Pods reach no address that those outside reach, too.
        **({"service-account-jwks-uri": _KEYS_IN_CLUSTER} if state.network_socket else {}),
        **({"runtime-config": runtime_config} if runtime_config else {}),
    }


def _kubelet_client(directory: StateDir) -> Mapping[str, str]:
    """Clusters from before kubelets had servers have no key files, and get no flags."""
    if not (directory.pki / "apiserver-kubelet-client.crt").exists():
        return {}
    return {
        "kubelet-certificate-authority": str(directory.ca),
        "kubelet-client-certificate": str(directory.pki / "apiserver-kubelet-client.crt"),
        "kubelet-client-key": str(directory.pki / "apiserver-kubelet-client.key"),
    }


def _front_proxy(directory: StateDir) -> Mapping[str, str]:
    """Clusters from before there was this authority have no key files, and get no flags. The flags are
    kubeadm's.
    """
    if not (directory.pki / "front-proxy-ca.crt").exists():
        return {}
    return {
        "requestheader-client-ca-file": str(directory.pki / "front-proxy-ca.crt"),
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": str(directory.pki / "front-proxy-client.crt"),
        "proxy-client-key-file": str(directory.pki / "front-proxy-client.key"),
    }

"""The program file: the programs that a shim runs, and what it has to know of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from kubeskew.kubelet.node.config import NodeConfig, NodesFileError, node_config


class ProgramFileError(ValueError):
    """The file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class ProgramProcess:
    """One process of the program; `name` is empty where there is only one."""

    name: str
    args: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    # A command that becomes the program: it gets this process, with which it has to end, and the program's
    # command line.
    wrapper: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Server:
    """An API server's log, and the sockets of its shim: for etcd's API, for announcements, and for what the
    program dials.
    """

    storage: str  # the URL of the log
    etcd_socket: Path
    timeline_socket: Path
    egress_socket: Path
    egress_config: Path  # which the shim writes for the program, like the next two
    audit_policy: Path
    audit_config: Path
    network: str  # the Unix socket of the network that pods have; empty without one
    services: Mapping[str, str]  # HOST:PORT by NAMESPACE/NAME, of Services that are processes of the cluster
    port: int  # at which clients look for the server; its shim listens there
    shared_port: int  # of all API servers of the cluster; 0 if there is one
    program_address: tuple[str, int]  # at which the program itself listens
    requestheader_authority: Path  # of front proxies
    proxy_certificate: Path  # of a front proxy
    proxy_key: Path
    tokens: Path  # of users


@dataclass(frozen=True, slots=True)
class Node:
    """The node of a kubelet, and the sockets and credentials of its shim."""

    config: NodeConfig
    root: Path  # of all nodes' directories
    sockets: Path | None  # a short directory for the sockets of all nodes
    cri_socket: Path
    certificate: Path  # with which the shim asks the kubelet
    key: Path


@dataclass(frozen=True, slots=True)
class Program:
    path: str
    version: str
    lease: str  # NAMESPACE/NAME; empty if it elects no leader
    health: str  # the base of its health endpoints' URLs; empty if it has none
    kubeconfig: Path  # which the shim writes for it
    certificate: Path  # the proxy's, and the authority of its clients
    key: Path
    authority: Path
    processes: tuple[ProgramProcess, ...]
    server: Server | None = None  # of an API server
    node: Node | None = None  # of a kubelet

    def __str__(self) -> str:
        """The program as the time line shows it."""
        return f"{Path(self.path).name} {self.version}, {self.path}"


def read_program(file: Path) -> Program:
    """Raises ProgramFileError."""
    try:
        return _program(orjson.loads(file.read_bytes()))
    except OSError as error:
        raise ProgramFileError(f"cannot read {file}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise ProgramFileError(f"{file} is not JSON: {error}") from error
    except KeyError as error:
        raise ProgramFileError(f"{file} has no {error.args[0]}") from error
    except (AttributeError, TypeError, NodesFileError) as error:
        raise ProgramFileError(f"{file} is not what it should be: {error}") from error


def _program(body: dict[str, Any]) -> Program:
    return Program(
        path=body["path"],
        version=body["version"],
        lease=body.get("lease") or "",
        health=(body.get("health") or "").rstrip("/"),
        kubeconfig=Path(body["kubeconfig"]),
        certificate=Path(body["tlsCertFile"]),
        key=Path(body["tlsPrivateKeyFile"]),
        authority=Path(body["clientCAFile"]),
        processes=tuple(
            ProgramProcess(
                each.get("name") or "",
                tuple(each.get("args") or ()),
                each.get("env") or {},
                tuple(each.get("wrapper") or ()),
            )
            for each in body["processes"]
        ),
        server=_server(body["server"]) if "server" in body else None,
        node=_node(body["node"]) if "node" in body else None,
    )


def _server(body: dict[str, Any]) -> Server:
    host, _, port = body["programAddress"].rpartition(":")
    return Server(
        storage=body["storage"],
        etcd_socket=Path(body["etcdSocket"]),
        timeline_socket=Path(body["timelineSocket"]),
        egress_socket=Path(body["egressSocket"]),
        egress_config=Path(body["egressConfig"]),
        audit_policy=Path(body["auditPolicy"]),
        audit_config=Path(body["auditConfig"]),
        network=body.get("network") or "",
        services=body.get("services") or {},
        port=body["port"],
        shared_port=body.get("sharedPort") or 0,
        program_address=(host, int(port)),
        requestheader_authority=Path(body["requestheaderClientCAFile"]),
        proxy_certificate=Path(body["proxyClientCertFile"]),
        proxy_key=Path(body["proxyClientKeyFile"]),
        tokens=Path(body["tokenAuthFile"]),
    )


def _node(body: dict[str, Any]) -> Node:
    return Node(
        config=node_config(body["entry"]),
        root=Path(body["root"]),
        sockets=Path(body["sockets"]) if body.get("sockets") else None,
        cri_socket=Path(body["criSocket"]),
        certificate=Path(body["clientCertificate"]),
        key=Path(body["clientKey"]),
    )

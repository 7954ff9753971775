"""The state directory: paths, the record of the cluster and its processes, the lock, files with secrets.

Files with secrets have the mode 0600, in directories of mode 0700.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kubeskew.apimachinery.durable_files import flush_all, make_directory, private_part
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.known_names import NETWORK, UNVERSIONED
from kubeskew.apimachinery.periods import QUICK
from kubeskew.apimachinery.process.network_agent import SOCKET_NAME
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.options import AUTO, automatic, cores
from kubeskew.cluster.clusterfile import ANY_SERVER
from kubeskew.cluster.config import NodeSpec
from kubeskew.cluster.failures import ClusterError, UserError

FORMAT = 1
_IGNORED = "# Written by kubeskew: keys and tokens of a cluster are not for a repository.\n*\n"
_TREES = (
    "faults",
    "kubeconfigs",
    "logs",
    "nodes",
    "programs",
    "kubelet",
    "rewound",
    "rewinding",
    "rewinding.partial",
)


def write_secret(path: Path, content: bytes | str) -> None:
    """Only the owner may read the file, at any moment. It is on the disk when this returns."""
    write_secrets({path: content})


def write_secrets(contents: Mapping[Path, bytes | str]) -> None:
    """Writes several files as `write_secret` does one, in the time of a few."""
    partials = {path: private_part(path, content) for path, content in contents.items()}
    flush_all(partials.values())
    for path, partial in partials.items():
        partial.replace(path)
    flush_all(path.parent for path in partials)


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """The real program of a process: its file, the version that it reports (empty if it reports none), and
    the port on which it serves its health and metrics over HTTPS (0 if it serves none). A `forced` one may be
    of another minor than the process.

    An API server serves at the port of its process, where clients look for it; `port` is its shim's.
    """

    path: str
    version: str = ""
    port: int = 0
    forced: bool = False

    def __str__(self) -> str:
        return " ".join(filter(None, (Path(self.path).name, self.version)))


@dataclass(slots=True)
class Process:
    """Process in the cluster's record: one API server, the controller manager, a kubelet that hosts `nodes`,
    …

    `pid` 0 means that none runs; `birth` distinguishes a recycled pid. `wanted` is False after a `kill`.
    Where a real `program` runs, the process is its shim (`kubeskew/shim/`).
    """

    name: str
    kind: str
    version: str
    gates: dict[str, bool]
    port: int = 0
    pid: int = 0
    birth: str = ""
    wanted: bool = True
    nodes: list[str] = field(default_factory=list)
    bugs: dict[str, bool] = field(default_factory=dict)
    program: RunningProgram | None = None
    workers: str = ""  # of an API server: a number or `auto`

    @property
    def worker_count(self) -> int:
        """Processes that answer requests; those of a real program are its own affair."""
        if self.kind != "apiserver" or self.program is not None:
            return 1
        return automatic(cores()) if self.workers == AUTO else int(self.workers or 1)

    def as_json(self) -> dict[str, Any]:
        value = {name: getattr(self, name) for name in self.__slots__}
        return {**value, "program": asdict(self.program) if self.program else None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Process":
        program = value.get("program")
        return cls(**{**value, "program": RunningProgram(**program) if program else None})

    @property
    def feature_gates(self) -> FeatureGates:
        return FeatureGates(Version.parse(self.version), self.gates, self.bugs)

    @property
    def client(self) -> str:
        """A kubelet process has the credentials of its first node, others their own."""
        return f"kubelet/{self.nodes[0]}" if self.kind == "kubelet" and self.nodes else self.name

    def url(self, path: str) -> str:
        """Only API servers speak TLS there. Of a real program it is its shim that answers."""
        scheme = "https" if self.kind == "apiserver" else "http"
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    @property
    def shim_port(self) -> int:
        """The port of the health checks of the process itself, which may be the shim of a real program."""
        return self.program.port if self.program and self.kind == "apiserver" else self.port

    def metrics_url(self, path: str = "/metrics") -> str:
        """A real program answers itself there, over HTTPS and to authorized users alone."""
        if self.program is None or not self.program.port or self.kind == "apiserver":
            return self.url(path)
        return f"https://127.0.0.1:{self.program.port}{path}"


@dataclass(slots=True)
class State:
    """`state.json` has the same fields."""

    runtime_config: dict[str, bool]
    processes: dict[str, Process] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    killed_nodes: list[str] = field(default_factory=list)
    runtime_dir: str = ""  # for sockets; none while the cluster is down
    switches: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  # driver → node → switches
    driver_revision: int = 0  # of the drivers' files
    verbosity: int = 0  # of the components' logs
    time: str = QUICK
    servers: dict[str, str] = field(default_factory=dict)  # component → its API server or ANY_SERVER
    shared_port: int = 0  # that all API servers listen on, if there are several
    abandoned_leases: bool = False  # the log names leaders of the cluster it was branched off from
    binaries: str = ""  # the folder of real programs by version
    real: list[str] = field(default_factory=list)  # kinds of components that take real programs from it
    programs: dict[str, dict[str, Any]] = field(default_factory=dict)  # binary, args, env by component name
    containers: dict[str, Any] = field(default_factory=dict)  # runtime, images and imagePolicy of all nodes

    @property
    def server(self) -> str:
        """Any of the API servers answers there, if there are several."""
        first = self.of_kind("apiserver")[0]
        return f"https://127.0.0.1:{self.shared_port or first.port}"

    @property
    def network_socket(self) -> str:
        """The Unix socket of the network of pods; empty if they have none."""
        return str(Path(self.runtime_dir, SOCKET_NAME)) if NETWORK in self.processes else ""

    def ports(self) -> list[int]:
        known = [*self.processes.values()]
        programs = [process.program.port for process in known if process.program is not None]
        return [*(process.port for process in known), *programs, self.shared_port]

    def servers_of(self, component: str) -> list[Process]:
        """A component may use all API servers, in this order, unless it has one of its own."""
        servers, wanted = self.of_kind("apiserver"), self.servers.get(component, ANY_SERVER)
        if wanted == ANY_SERVER:
            return servers
        return [server for server in servers if server.name == wanted] or servers[:1]

    def of_kind(self, kind: str) -> list[Process]:
        return [process for process in self.processes.values() if process.kind == kind]

    def components(self) -> dict[str, Process]:
        """Keys are names as on the command line; values are the processes that the components live in."""
        alone = {name: process for name, process in self.processes.items() if process.kind != "kubelet"}
        found = {name: process for name, process in alone.items() if process.kind not in UNVERSIONED}
        hosting = {node: process for process in self.of_kind("kubelet") for node in process.nodes}
        found.update({f"kubelet/{node}": hosting[node] for node in self.nodes if node in hosting})
        return found | alone

    def node_spec(self, name: str) -> NodeSpec:
        return NodeSpec.from_json(self.nodes[name])


@dataclass(frozen=True, slots=True)
class StateDir:
    path: Path

    @property
    def record(self) -> Path:
        return self.path / "state.json"

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def ca(self) -> Path:
        return self.path / "ca.crt"

    @property
    def account_key(self) -> Path:
        return self.pki / "sa.key"

    @property
    def account_public_key(self) -> Path:
        """A real API server reads keys that verify tokens only in this form."""
        return self.pki / "sa.pub"

    @property
    def ignored(self) -> Path:
        """The file keeps the directory out of a git repository around it."""
        return self.path / ".gitignore"

    @property
    def token(self) -> Path:
        return self.path / "admin.token"

    @property
    def pki(self) -> Path:
        return self.path / "pki"

    @property
    def database(self) -> Path:
        return self.path / "data" / "log.db"

    @property
    def storage_file(self) -> Path:
        """The file has the URL of a log that is not in `database`."""
        return self.path / "data" / "storage-url"

    @property
    def storage_url(self) -> str:
        try:
            return self.storage_file.read_text().strip()
        except (FileNotFoundError, NotADirectoryError):
            return f"sqlite:///{quote(str(self.database.absolute()))}"

    def databases(self) -> list[str]:
        """Logs outside the state directory have URLs, also those that a rewind has cut off or a repair has
        replaced.
        """
        places = (self.storage_file.parent, *sorted(self.rewound.glob("*/data")))
        files = [file for place in places for file in sorted(place.glob(f"{self.storage_file.name}*"))]
        return [*dict.fromkeys(file.read_text().strip() for file in files)]

    def component_kubeconfig(self, user: str) -> Path:
        return self.path / "kubeconfigs" / user.replace("/", "-")

    def log(self, process: str) -> Path:
        return self.path / "logs" / f"{process}.log"

    def nodes_file(self, process: str) -> Path:
        return self.path / "nodes" / f"{process}.json"

    def program_file(self, process: str) -> Path:
        """The file from which a shim learns what to run."""
        return self.path / "programs" / f"{process.replace('/', '-')}.json"

    @staticmethod
    def etcd_socket(state: State, process: str) -> Path:
        """The Unix socket at which the shim of a real API server serves etcd's API."""
        return Path(state.runtime_dir) / f"{process}.etcd"

    @staticmethod
    def egress_socket(state: State, process: str) -> Path:
        """The Unix socket at which the shim of a real API server takes what that dials in the cluster."""
        return Path(state.runtime_dir) / f"{process}.egress"

    @staticmethod
    def timeline_sockets(state: State) -> Path:
        """The directory of the Unix sockets at which shims of real API servers take announcements."""
        return Path(state.runtime_dir) / "timeline"

    def program_certificate(self, kind: str) -> Path:
        """Serving certificate of a real program and of the proxy in front of it; its key is next to it."""
        return self.pki / f"program-{kind}.crt"

    def kubelet_root(self) -> Path:
        return self.path / "kubelet"

    @property
    def faults(self) -> Path:
        return self.path / "faults"

    @property
    def rewound(self) -> Path:
        """Rewinds keep here what they cut off."""
        return self.path / "rewound"

    @property
    def rewinding(self) -> Path:
        """Exists only while a rewind has to be finished."""
        return self.path / "rewinding"

    @property
    def rewinding_partial(self) -> Path:
        """A rewind here may yet be given up."""
        return self.path / "rewinding.partial"

    @property
    def forking(self) -> Path:
        """The note says that a fork is being written here, with its origin; it is removed last."""
        return self.path / "forking"

    def rewind_interrupted(self) -> bool:
        return self.rewinding.exists() or self.rewinding_partial.exists()

    def fork_interrupted(self) -> bool:
        """The fork was begun here, but is no cluster yet."""
        return self.forking.exists() and not self.record.exists()

    def exists(self) -> bool:
        return self.record.exists() or self.rewinding.exists() or self.fork_interrupted()

    def half_made(self) -> bool:
        """The cluster was begun here, but never recorded: none of its processes has been started."""
        return self.fork_interrupted() or (self.pki.exists() and not self.exists())

    def clear(self) -> None:
        """Removes the cluster's files except the lock; all others stay."""
        for tree in (self.pki, self.database.parent, *map(self.path.joinpath, _TREES)):
            shutil.rmtree(tree, ignore_errors=True)
        for file in (self.kubeconfig, self.ca, self.token, self.record, self.forking):
            file.unlink(missing_ok=True)
            file.with_name(f"{file.name}.partial").unlink(missing_ok=True)

    def purge(self) -> None:
        """Removes the cluster's files, and the directory if nothing else is in it."""
        self.clear()
        (self.path / "lock").unlink(missing_ok=True)
        if self.ignored.is_file() and self.ignored.read_text() == _IGNORED:
            self.ignored.unlink()
        with suppress(OSError):  # not empty
            self.path.rmdir()

    def load(self) -> State:
        """Raises UserError if there is no record, ClusterError if it cannot be read."""
        if self.rewinding.exists():
            raise ClusterError(
                f"a rewind of the cluster in {self.path} was interrupted: "
                "`kubeskew up` finishes it and starts the cluster, `kubeskew rewind` finishes it alone"
            )
        if self.fork_interrupted():
            raise ClusterError(
                f"the fork into {self.path} has not come to its end ({self.forking.read_text()}): the same "
                "`kubeskew fork` makes it again if it was interrupted, `kubeskew down --purge` removes it"
            )
        try:
            value = json.loads(self.record.read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(
                f"there is no cluster in {self.path}; start one with `kubeskew up`, "
                "or name its directory with --state-dir"
            ) from None
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise self._unreadable("another version of kubeskew wrote it")
        try:
            return State(
                runtime_config=value["runtimeConfig"],
                processes={item["name"]: Process.from_json(item) for item in value["processes"]},
                nodes=value["nodes"],
                killed_nodes=value["killedNodes"],
                runtime_dir=value.get("runtimeDir", ""),
                switches=value.get("switches", {}),
                driver_revision=value.get("driverRevision", 0),
                verbosity=value.get("verbosity", 0),
                time=value.get("time", QUICK),
                servers=value.get("servers", {}),
                shared_port=value.get("sharedPort", 0),
                abandoned_leases=value.get("abandonedLeases", False),
                binaries=value.get("binaries", ""),
                real=value.get("real", []),
                programs=value.get("programs", {}),
                containers=value.get("containers", {}),
            )
        except (KeyError, TypeError) as error:
            raise self._unreadable(f"not a record of a cluster: {error}") from error

    def _unreadable(self, reason: object) -> ClusterError:
        return ClusterError(
            f"cannot read {self.record}: {reason}. End the processes of this cluster by hand, "
            "remove the directory and start a new one with `kubeskew up`"
        )

    def save(self, state: State) -> None:
        value = {
            "format": FORMAT,
            "runtimeConfig": state.runtime_config,
            "processes": [process.as_json() for process in state.processes.values()],
            "nodes": state.nodes,
            "killedNodes": state.killed_nodes,
            "runtimeDir": state.runtime_dir,
            "switches": state.switches,
            "driverRevision": state.driver_revision,
            "verbosity": state.verbosity,
            "time": state.time,
            "servers": state.servers,
            "sharedPort": state.shared_port,
            "abandonedLeases": state.abandoned_leases,
            "binaries": state.binaries,
            "real": state.real,
            "programs": state.programs,
            "containers": state.containers,
        }
        write_secret(self.record, json.dumps(value, indent=1))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the directory for one changing command. Raises ClusterError if another holds the lock, or the
        directory cannot be created.
        """
        try:
            make_directory(self.path)
        except OSError as error:
            raise ClusterError(
                f"cannot make {self.path}: {error.strerror}: name another directory with --state-dir"
            ) from error
        self.path.chmod(0o700)
        if all(path.name == f"{self.ignored.name}.partial" for path in self.path.iterdir()):
            write_secret(self.ignored, _IGNORED)
        lock = self.path / "lock"
        lock.touch(mode=0o600)
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ClusterError(
                    f"another kubeskew command is changing the cluster in {self.path}; wait for it to end"
                ) from None
            yield

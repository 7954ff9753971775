"""Chooses the real program of a component: the one its `binary` names, or the one of its version in the
folder of programs; else the component stays emulated.

The folder has a folder for each version, with the programs under upstream's names: `1.36/kube-scheduler`,
`1.36.3/kube-scheduler`, or the name of an imported release.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.known_bugs import bugs_flag
from kubeskew.apimachinery.known_names import DRIVER, PLUGIN, did_you_mean, kind_of, names_of
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.clusterfile import REAL
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.programs.inspection import Inspect, Program
from kubeskew.cluster.programs.scheduler_config import read_config
from kubeskew.cluster.state import Process, State

NONE = "none"
KUBELET = "kubelet"
PROGRAMS = {kind: kind if kind == KUBELET else f"kube-{kind}" for kind in REAL}
# Flags that programs get from kubeskew.
_SERVING = frozenset(
    {"secure-port", "bind-address", "tls-cert-file", "tls-private-key-file", "client-ca-file"}
)  # fmt: skip
_OF_CLIENTS = _SERVING | {
    "kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "master",
}  # fmt: skip
_OWN_FLAGS = {
    "scheduler": _OF_CLIENTS,
    "controller-manager": _OF_CLIENTS,
    "apiserver": _SERVING | {
        "etcd-servers", "etcd-servers-overrides", "etcd-prefix", "etcd-cafile", "etcd-certfile",
        "etcd-keyfile", "storage-media-type", "advertise-address", "token-auth-file",
        "service-account-issuer", "service-account-key-file", "service-account-signing-key-file",
        "service-account-signing-endpoint", "endpoint-reconciler-type", "requestheader-allowed-names",
        "requestheader-username-headers", "requestheader-group-headers", "requestheader-uid-headers",
        "requestheader-extra-headers-prefix",
        "service-cluster-ip-range", "requestheader-client-ca-file", "proxy-client-cert-file",
        "proxy-client-key-file",
        "kubelet-certificate-authority", "kubelet-client-certificate", "kubelet-client-key",
        "audit-webhook-config-file", "audit-webhook-mode", "egress-selector-config-file",
    },
    KUBELET: _SERVING | {
        "config", "config-dir", "kubeconfig", "bootstrap-kubeconfig", "root-dir", "cert-dir", "address",
        "port", "hostname-override", "node-ip", "container-runtime-endpoint", "image-service-endpoint",
        "cloud-provider",
    },
}  # fmt: skip
# Flags that cannot be had, with the reason, and flags for which the cluster has keys.
_REFUSED = {
    "encryption-provider-config": "the log has objects as they are: leave it out",
    "feature-gates": "set gates by featureGates",
    "runtime-config": "set it by runtimeConfig of the cluster",
}
_ARGUMENT = re.compile(r"^--?([\w-]+)")


@dataclass(frozen=True, slots=True)
class Choice:
    """The real program of a component, or the reason that it stays emulated though a real one was asked for.

    `note` is for people: what differs from what one might expect of the program. A `forced` one does not fit
    the component's version.
    """

    program: Program | None = None
    reason: str = ""
    note: str = ""
    forced: bool = False


EMULATED = Choice()


def parse_real(text: str) -> list[str]:
    """Parses `scheduler,controller-manager`; `none` is an empty list. Raises UserError."""
    kinds = [kind.strip() for kind in text.split(",") if kind.strip()]
    if kinds == [NONE]:
        return []
    for kind in kinds:
        if kind not in REAL:
            hint = did_you_mean(kind, [*REAL, NONE])
            raise UserError(
                f"--real: there is no component {kind}; {', '.join(REAL)} and {NONE} can be{hint}"
            )
    if not kinds:
        raise UserError(f"--real: name components: {', '.join(REAL)}; or {NONE}")
    return [kind for kind in REAL if kind in kinds]


def check_folder(folder: str, real: Iterable[str]) -> None:
    """Raises UserError unless there is a folder for the components that are to be real."""
    if not [*real]:
        return
    if not folder:
        raise UserError("--real needs a folder of programs: name it with --binaries DIR or KUBESKEW_BINARIES")
    if not Path(folder).is_dir():
        raise UserError(f"--binaries: there is no folder {folder}")


@dataclass(frozen=True, slots=True)
class ProgramFlags:
    """The folder of real programs and the components that take them, where a command names others than the
    cluster has; they stay with the cluster. A folder that is not `named` is the environment's: it counts
    where components are named without one.
    """

    binaries: str = ""
    real: Sequence[str] | None = None
    named: bool = True

    def apply(self, state: State, names: Sequence[str] = ()) -> None:
        """Changes the components of these names alone, if there are any. Raises UserError unless there is
        such a folder. Without any real component, none of them has a binary of its own any more; those of
        drivers stay.
        """
        meant = {kind_of(name) for name in names} or {*REAL}
        if self.real is not None and not self.real:
            left = {kind for kind in REAL if kind in meant}
            state.programs = {n: each for n, each in state.programs.items() if kind_of(n) not in left}
        state.binaries, real = self.over(state.binaries, state.real)
        state.real = [kind for kind in REAL if kind in (real if kind in meant else state.real)]
        check_folder(state.binaries, state.real)

    def over(self, binaries: str, real: Sequence[str]) -> tuple[str, Sequence[str]]:
        """The folder and the components, which are these where nothing else is named. Raises UserError for a
        folder that no component takes.
        """
        if self.real is None and self.binaries and self.named and not real:
            raise UserError("--binaries: name the components that take its programs: --real scheduler")
        counts = self.binaries and (self.named or self.real is not None or (real and not binaries))
        return (self.binaries if counts else binaries), (real if self.real is None else self.real)


SAME = ProgramFlags()


def check_settings(state: State) -> None:
    """Raises UserError for arguments or variables of a component that is emulated in any case."""
    for name, settings in state.programs.items():
        kind = kind_of(name)
        if "binary" not in settings_of(state, name) and kind not in state.real:
            key = "args" if settings.get("args") else "env"
            raise UserError(
                f"components.{name}: {key}: only a real program takes them: name it by binary", key
            )


def choose(
    state: State,
    name: str,
    version: Version,
    bugs: Mapping[str, bool],
    inspect: Inspect,
    *,
    moving: bool = False,
    force: bool = False,
) -> Choice:
    """Raises UserError for a program that cannot be used; its gates are not looked at. `moving` components go
    to another version, or have gone to it without their program: a `binary` of another minor is left out
    there; otherwise, and in the folder, it is refused unless `force` is given.
    """
    kind, settings = kind_of(name), settings_of(state, name)
    if kind in (DRIVER, PLUGIN):
        binary = settings.get("binary", "")
        return Choice(inspect(Path(binary), False)) if binary else Choice()
    if kind not in REAL or not (settings.get("binary") or kind in state.real):
        return Choice()
    if bugs:
        return Choice(reason=f"a real program has the bugs that it has, and {bugs_flag(bugs)} is set")
    found = _found(state, kind, settings.get("binary", ""), version, inspect, moving, force)
    if found.program is not None:
        args = settings.get("args", [])
        _check_flags(name, found.program, args)
        if kind == "scheduler":
            read_config(name, args)  # before anything starts or stops
    return found


def choose_again(
    state: State,
    name: str,
    process: Process,
    version: Version,
    bugs: Mapping[str, bool],
    inspect: Inspect,
    *,
    force: bool = False,
) -> Choice:
    """The choice for the component of a name, whose process is there: what was forced stays so at its
    version, and a program that was left out on the way to it stays left out. Raises UserError.
    """
    before = process.program
    moves = process.version != str(version)
    fitted = before is not None and (before.forced or _fits(Program(Path(), before.version), version))
    return choose(
        *(state, name, version, bugs, inspect),
        moving=moves or not fitted,
        force=force or (before is not None and before.forced and not moves),
    )


def settings_of(state: State, name: str) -> Mapping[str, Any]:
    """Settings under a narrower name take precedence."""
    settings: dict[str, Any] = {}
    for each in names_of(name):
        settings |= state.programs.get(each, {})
    return settings


def _found(
    state: State, kind: str, binary: str, version: Version, inspect: Inspect, moving: bool, force: bool
) -> Choice:
    if binary:
        program = inspect(Path(binary), True)
        if _fits(program, version) or force:
            return _chosen(program, version, force)
        if not moving:
            raise UserError(_mismatch(program, version, kind, "name a program of that minor"))
    if kind not in state.real:
        return Choice(reason=f"{binary} reports {program.version}")
    place = Path(state.binaries)
    for folder in _folders(place, version):
        path = folder / PROGRAMS[kind]
        if not path.exists():
            continue
        program = inspect(path, True)
        if not (_fits(program, version) or force):
            raise UserError(_mismatch(program, version, kind, f"put it into the folder {place}/VERSION"))
        if folder.name != str(version) and not _is_patch(program, version) and not force:
            return Choice(reason=f"{path} reports {program.version}")
        return _chosen(program, version, force)
    return Choice(reason=f"there is no {place / str(version) / PROGRAMS[kind]}")


def _chosen(program: Program, version: Version, force: bool) -> Choice:
    is_other = not (_fits(program, version) and _is_patch(program, version))
    return Choice(program, note=_note(program, version), forced=force and is_other)


def _mismatch(program: Program, version: Version, kind: str, remedy: str) -> str:
    reports = f"{program.path} reports {program.version}, and the {kind} is to be {version}"
    return f"{reports}: {remedy}, or use --force"


def _folders(place: Path, version: Version) -> list[Path]:
    """`1.36.3` before `1.36`; for a version without a patch, its minor before the newest patch there is."""
    minor = str(version.release)
    if version.patch is not None:
        return [place / str(version), place / minor]
    patches = [path for path in place.glob(f"{minor}.*") if path.name.rpartition(".")[2].isdecimal()]
    patches.sort(key=lambda path: int(path.name.rpartition(".")[2]), reverse=True)
    return [place / minor, *patches]


def _fits(program: Program, version: Version) -> bool:
    """A build without a stamp fits any version; one of an imported tree may report its base's minor."""
    return program.minor in (None, version.minor, version.base.minor)


def _is_patch(program: Program, version: Version) -> bool:
    return version.patch is None or program.minor is None or program.patch == version.patch


def _note(program: Program, version: Version) -> str:
    if program.minor is None:
        return f"its build has no version ({program.version})"
    if not _fits(program, version):
        return f"it reports {program.version}, and runs as {version} because of --force"
    return "" if _is_patch(program, version) else f"it reports {program.version}"


def _check_flags(name: str, program: Program, args: Sequence[str]) -> None:
    for argument in args:
        found = _ARGUMENT.match(argument)
        flag = found[1] if found else ""
        if flag in _OWN_FLAGS[kind_of(name)]:
            raise UserError(f"{name}: args: --{flag} is set by kubeskew: leave it out")
        if flag in _REFUSED:
            raise UserError(f"{name}: args: --{flag}: {_REFUSED[flag]}")
        if found and len(flag) > 1 and flag not in program.flags:
            hint = did_you_mean(flag, program.flags, "--")
            raise UserError(f"{name}: {program.path} has no flag --{flag}{hint}")

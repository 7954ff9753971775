"""`--dask ADDRESS`: the workers of a Dask cluster in the place of processes of this machine."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from kubeskew.cluster.failures import UserError
from kubeskew.conformance.dealing.files import files_of
from kubeskew.conformance.dealing.workers import Pool
from kubeskew.conformance.scenario import Cell

F = Callable[..., Any]

# flag, as of `dask worker` and `dask scheduler` behind its prefix → Dask's name of it for a client, help
_TLS = {
    "--dask-tls-ca-file": ("tls_ca_file", "The authority of its certificates, PEM."),
    "--dask-tls-cert": ("tls_client_cert", "Our certificate, PEM."),
    "--dask-tls-key": ("tls_client_key", "The key of that, PEM, if it is not in the same file."),
}


@dataclass(frozen=True, slots=True)
class DaskCluster:
    """Holds the address of a Dask cluster's scheduler, and the files for TLS that its configuration lacks."""

    address: str
    tls: Mapping[str, str] = field(default_factory=dict)


def dask_options(command: F) -> F:
    """Adds --dask and the files for TLS, which the command takes as one value: `dask`, a DaskCluster."""

    @functools.wraps(command)
    def folded(*args: Any, dask: str | None, **flags: Any) -> Any:
        tls = {name: flags.pop(_parameter(flag)) for flag, (name, _) in _TLS.items()}
        given = {name: str(path) for name, path in tls.items() if path is not None}
        if given and not dask:
            raise UserError("--dask-tls-… is of a Dask cluster: name its scheduler by --dask tls://HOST:8786")
        return command(*args, dask=DaskCluster(dask, given) if dask else None, **flags)

    made: F = folded
    for flag, (_, what) in reversed(_TLS.items()):
        path = click.Path(exists=True, dir_okay=False, resolve_path=True)
        text = f"With --dask tls://…: {what[0].lower()}{what[1:]} [default: as Dask is configured]"
        made = click.option(flag, metavar="FILE", type=path, help=text)(made)
    return click.option(
        "--dask",
        metavar="ADDRESS",
        help="Have the workers of a Dask cluster do it; the address is its scheduler's.",
    )(made)


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


@contextmanager
def dask_pool(cluster: DaskCluster, cells: Sequence[Cell]) -> Iterator[Pool]:
    """Gives the workers of a Dask cluster. Raises UserError."""
    try:
        from kubeskew.conformance.dealing.dask_pool import DaskPool
    except ModuleNotFoundError as error:
        raise UserError(
            f"--dask needs Dask, which is not there (no module {error.name}): pip install 'kubeskew[dask]'"
        ) from error
    with DaskPool(cluster.address, files_of(cells), cluster.tls) as pool:
        yield pool


def check_alone(dask: DaskCluster | None, jobs: int | None) -> None:
    """Raises UserError for flags that do not go together."""
    if dask and jobs is not None:
        raise UserError(
            "--jobs is of this machine: leave it out; a Dask worker does as much as it has threads"
        )

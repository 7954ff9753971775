"""`--dask ADDRESS`: the workers of a Dask cluster in the place of processes of this machine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from kubeskew.cluster.failures import UserError
from kubeskew.conformance.dealing.files import files_of
from kubeskew.conformance.dealing.workers import Pool
from kubeskew.conformance.scenario import Cell

dask_option = click.option(
    "--dask",
    metavar="ADDRESS",
    help="Have the workers of a Dask cluster do it; the address is its scheduler's.",
)


@contextmanager
def dask_pool(address: str, cells: Sequence[Cell]) -> Iterator[Pool]:
    """Gives the workers of the Dask cluster whose scheduler has this address. Raises UserError."""
    try:
        from kubeskew.conformance.dealing.dask_pool import DaskPool
    except ModuleNotFoundError as error:
        raise UserError(
            f"--dask needs Dask, which is not there (no module {error.name}): pip install 'kubeskew[dask]'"
        ) from error
    with DaskPool(address, files_of(cells)) as pool:
        yield pool


def check_alone(dask: str | None, jobs: int | None) -> None:
    """Raises UserError for flags that do not go together."""
    if dask and jobs is not None:
        raise UserError(
            "--jobs is of this machine: leave it out; a Dask worker does as much as it has threads"
        )

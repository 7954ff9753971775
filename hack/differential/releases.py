"""The releases whose programs are asked, and what commands take to find them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PATCHES = {
    "1.31": "1.31.14",
    "1.32": "1.32.13",
    "1.33": "1.33.13",
    "1.34": "1.34.9",
    "1.35": "1.35.6",
    "1.36": "1.36.3",
}


def of_api_servers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the minor, and the directory of kube-apiservers, to a command."""
    directory = click.Path(exists=True, path_type=Path)
    found = click.option("--binaries", type=directory, required=True, help="DIR/MINOR/kube-apiserver.")
    return click.argument("minor")(found(command))

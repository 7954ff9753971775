"""Finds kubectl, and runs it against a cluster."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

OPTION = "--kubeskew-kubectl"
INI = "kubeskew_kubectl"
VARIABLE = "KUBECTL"
_SECONDS = 120.0


class KubectlError(Exception):
    """kubectl failed, or does not exist."""


def find(chosen: str) -> Path:
    """Prefers the binary `chosen` by an option, then that of $KUBECTL, then the one on the PATH.

    Raises KubectlError.
    """
    for source, name in ((f"{OPTION} or {INI}", chosen), (f"${VARIABLE}", os.environ.get(VARIABLE, ""))):
        if name:
            if found := shutil.which(name):
                return Path(found).absolute()
            raise KubectlError(f"{source} names {name}, which is no program that can be run")
    if found := shutil.which("kubectl"):
        return Path(found).absolute()
    raise KubectlError(
        f"there is no kubectl on the PATH: install it, or name it with {OPTION}, the ini option {INI}, "
        f"or ${VARIABLE}; cluster.client needs none"
    )


def run(binary: Path, arguments: Sequence[str], kubeconfig: Path, cache: Path, stdin: str | None) -> str:
    """Raises KubectlError with kubectl's error output if it fails.

    Discovery is cached in `cache`, not in the user's home.
    """
    __tracebackhide__ = True
    command = [str(binary), *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - the user's kubectl
            command,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache)},
        )
    except subprocess.TimeoutExpired as error:
        raise KubectlError(f"{_shown(arguments)} did not end within {_SECONDS:.0f} s") from error
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()
        raise KubectlError(f"{_shown(arguments)} failed with exit code {done.returncode}: {output}")
    return done.stdout


def _shown(arguments: Sequence[str]) -> str:
    return f"`kubectl {shlex.join(arguments)}`"

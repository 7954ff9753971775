"""Reads how a fake container behaves: when it ends by itself, how, and what SIGTERM does to it.

Its command says so where the shell in `kubelet/containers/shell` has it (`node_processes.py` runs it); any
other container runs until it is stopped. Annotations of the pod override that, for all its containers or,
with `.CONTAINER` appended to the key, for one:

    kubelet.kubeskew.io/runs-for: "5"       seconds until it ends by itself
    kubelet.kubeskew.io/exit-code: "1"      its exit code then; of a program that is not run, it ends at once
    kubelet.kubeskew.io/on-sigterm: ignore  survives SIGTERM; a number: ends so many seconds after it
"""

from dataclasses import dataclass, field

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.shell import lookup

PREFIX = "kubelet.kubeskew.io/"


@dataclass(frozen=True, slots=True)
class Program:
    """A program ends `runs_for` seconds after its start with `exit_code`; None: it runs until stopped.

    It ends `stops_after` seconds after SIGTERM.
    """

    runs_for: float | None = None
    exit_code: int = 0
    stops_after: float | None = 0.0  # None: SIGTERM is ignored
    # annotations override the command
    is_fixed: bool = field(default=False, compare=False)


def program_of(pod: Object, container: Object) -> Program:
    """Reads what the container does from its annotations and its command."""
    argv = [*(container.get("command") or []), *(container.get("args") or [])]
    own_code = annotation(pod, container, "exit-code")
    own_time = annotation(pod, container, "runs-for")
    exit_code = int(own_code or 0)
    runs_for = float(own_time) if own_time is not None else None
    if own_code is not None and runs_for is None and not (argv and lookup.knows(argv[0])):
        runs_for = 0.0
    fixed = own_code is not None or own_time is not None
    return Program(runs_for, exit_code, _stops_after(annotation(pod, container, "on-sigterm")), fixed)


def annotation(pod: Object, container: Object, name: str) -> str | None:
    """Returns the value that an annotation of the pod has for a container; None if there is none."""
    annotations = pod["metadata"].get("annotations") or {}
    common: str | None = annotations.get(PREFIX + name)
    return annotations.get(f"{PREFIX}{name}.{container['name']}", common)


def _stops_after(text: str | None) -> float | None:
    if text is None or text == "exit":
        return 0.0
    return None if text == "ignore" else float(text)

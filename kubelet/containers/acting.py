"""The annotations that say how a container is acted: when it ends by itself, how, and what SIGTERM does.

Annotations of a pod hold for all its containers or, with `.CONTAINER` appended to the key, for one:

    kubelet.kubeskew.io/runs-for: "5"       seconds until it ends by itself
    kubelet.kubeskew.io/exit-code: "1"      its exit code then; an unknown program ends at once
    kubelet.kubeskew.io/on-sigterm: ignore  survives SIGTERM; a number: ends so many seconds after it

The kubelet hands those of a container over with its configuration, and adds its kind, its use of the node
(`usage.py`) and its ports. A runtime that runs programs has no use for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeskew.apimachinery.objects import Object

PREFIX = "kubelet.kubeskew.io/"
RUNS_FOR, EXIT_CODE, ON_SIGTERM = f"{PREFIX}runs-for", f"{PREFIX}exit-code", f"{PREFIX}on-sigterm"
KIND = f"{PREFIX}kind"  # of a container whose program has to end: an init container, or one of a Job
INIT, JOB = "init", "job"
CORES, MEMORY = f"{PREFIX}cores", f"{PREFIX}memory"  # numbers
PORTS = "io.kubernetes.container.ports"  # as upstream's kubelet has it: a JSON list


@dataclass(frozen=True, slots=True)
class Behaviour:
    """An acted program ends `runs_for` seconds after its start with `exit_code`; None: as its command says.

    It ends `stops_after` seconds after SIGTERM.
    """

    runs_for: float | None = None
    exit_code: int | None = None
    stops_after: float | None = 0.0  # None: SIGTERM is ignored

    @classmethod
    def of(cls, annotations: Mapping[str, str], otherwise: "Behaviour | None" = None) -> "Behaviour":
        """Reads the annotations of a container's configuration, over what holds without them."""
        runs_for, code = annotations.get(RUNS_FOR), annotations.get(EXIT_CODE)
        base, sigterm = otherwise or cls(), annotations.get(ON_SIGTERM)
        return cls(
            base.runs_for if runs_for is None else float(runs_for),
            base.exit_code if code is None else int(code),
            base.stops_after if sigterm is None else stops_after(sigterm),
        )


def behaviour_annotations(pod: Object, container: Object) -> dict[str, str]:
    """Those of the pod that concern a container."""
    names = (RUNS_FOR, EXIT_CODE, ON_SIGTERM)
    found = {name: annotation(pod, container, name.removeprefix(PREFIX)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def annotation(pod: Object, container: Object, name: str) -> str | None:
    """The value that an annotation of the pod has for a container; None if there is none."""
    annotations = pod["metadata"].get("annotations") or {}
    common: str | None = annotations.get(PREFIX + name)
    return annotations.get(f"{PREFIX}{name}.{container['name']}", common)


def stops_after(text: str | None) -> float | None:
    if text is None or text == "exit":
        return 0.0
    return None if text == "ignore" else float(text)

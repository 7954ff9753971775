"""Records the calls of kubelets that a driver answered on one node, so that a needless one is seen.

The file lies beside the record of prepared claims and is only ever appended to: one JSON line per call,

    {"time": …, "call": "NodePrepareResources", "error": "",
     "claims": [{namespace, name, uid, error, devices}]}

It outlives the driver, its updates and the kubelet's.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kubeskew.apimachinery.clock import Clock, micro_timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.drivers.claims import ClaimRef
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

FILE_NAME = "calls.jsonl"


class CallLog:
    """The log in the driver's data directory of a node."""

    def __init__(self, data: Path, clock: Clock, files: StateFiles = UNJOURNALLED) -> None:
        self._journal = Journal(data / FILE_NAME, files)
        self._clock = clock

    def append(
        self, call: str, claims: Sequence[ClaimRef], answers: Mapping[str, Object], error: str = ""
    ) -> None:
        """Note a call, what is answered per claim UID, and why it fails as a whole if it does."""
        noted = [
            {
                **claim._asdict(),
                "error": answers.get(claim.uid, {}).get("error", ""),
                "devices": list(answers.get(claim.uid, {}).get("devices", ())),
            }
            for claim in claims
        ]
        time = micro_timestamp(self._clock.now())
        self._journal.append({"time": time, "call": call, "error": error, "claims": noted})

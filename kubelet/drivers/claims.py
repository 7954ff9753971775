"""Prepares claims on one node: CDI files, a lasting record of them, and a log of the kubelet's calls.

Each request of a claim becomes one CDI device `DRIVER/claim=CLAIM_UID-REQUEST`; the containers that use the
request find in their environment

    <request>=true                      e.g. container_0_request_0=true, as upstream's test driver gave
    claim_<claim>_<request>=true        as it gives since 1.35
    <driver>_<request>=<device>,…       e.g. gpu_example_com_container_0_request_0=gpu-0
    user_<key>=<value>                  from opaque configuration in the claim for this driver
    admin_<key>=<value>                 the same, from the device class

where characters that a variable's name cannot have are `_`. What is prepared is kept in `prepared.json`: a
claim must come back with the same devices after a restart, and be unprepared by a driver that did not
prepare it.

The log of calls shows whether one was needless. It lies in the same directory and is only ever appended to,
one JSON line per call; it outlives the driver, its updates and the kubelet's:

    {"time": …, "call": "NodePrepareResources", "error": "",
     "claims": [{namespace, name, uid, error, devices}]}
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.clock import Clock, micro_timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.cdi import write_spec
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

CALL_LOG = "calls.jsonl"


class ClaimRef(NamedTuple):
    """A claim as a kubelet names it."""

    namespace: str
    name: str
    uid: str


class ClaimError(Exception):
    """A claim that cannot be prepared."""


class PreparedClaims:
    """The claims that one driver has prepared on one node."""

    def __init__(self, driver: str, record: Path, cdi: Path, files: StateFiles = UNJOURNALLED) -> None:
        self.driver = self._driver = driver
        self._record = record
        self._files = files
        self._cdi = cdi
        self._prepared: dict[str, Object] = orjson.loads(files.read(record) or b"{}")  # by claim UID

    def all(self) -> list[Object]:
        """Each entry is `{namespace, name, uid, devices}`."""
        return [dict(entry) for entry in self._prepared.values()]

    def prepare(self, ref: ClaimRef, claim: Object) -> Sequence[Object]:
        """Devices are `{pool, device, requests, cdiIDs, shareID}`; for a prepared claim, the same as before.

        Raises ClaimError for configuration of another kind.
        """
        known = self._prepared.get(ref.uid)
        path = self._cdi_path(ref.uid)
        if known is not None and (path.exists() or not known["devices"]):
            found: Sequence[Object] = known["devices"]
            return found
        allocation = claim["status"]["allocation"]["devices"]
        results = [result for result in allocation.get("results") or [] if result["driver"] == self._driver]
        environments = self._environments(ref, allocation, results)
        devices = [self._device(ref, result) for result in results]
        if environments:  # a spec must have devices
            named = {f"{ref.uid}-{request}": env for request, env in environments.items()}
            write_spec(path, f"{self._driver}/claim", named, self._files)
        self._prepared[ref.uid] = {**ref._asdict(), "devices": devices}
        self._save()
        return devices

    def allocations(self) -> Iterator[tuple[str, Sequence[Any]]]:
        """Each claim's UID comes with the allocations that were kept when it was prepared."""
        for uid, entry in self._prepared.items():
            yield uid, entry.get("allocations") or ()

    def prepare_handle(
        self, ref: ClaimRef, variables: Mapping[str, str], allocations: Sequence[Any] = ()
    ) -> Sequence[str]:
        """Prepares a claim of classic DRA, whose containers get these variables; returns its CDI ids.

        `allocations` are kept with the claim.
        """
        device = f"{ref.uid}"
        ids = [f"{self._driver}/claim={device}"]
        if variables:
            spec = {device: dict(variables)}
            write_spec(self._cdi_path(ref.uid), f"{self._driver}/claim", spec, self._files)
        else:
            ids = []
        devices = [{"pool": "", "device": "", "requests": [], "cdiIDs": ids, "shareID": ""}]
        kept = {"allocations": list(allocations)} if allocations else {}
        self._prepared[ref.uid] = {**ref._asdict(), "devices": devices, **kept}
        self._save()
        return ids

    def unprepare(self, ref: ClaimRef) -> None:
        """Unprepares the claim; a claim that is not prepared is no error."""
        self._files.remove(self._cdi_path(ref.uid))
        if self._prepared.pop(ref.uid, None) is not None:
            self._save()

    # --

    def _device(self, ref: ClaimRef, result: Object) -> Object:
        request = _base(result["request"])
        return {
            "pool": result["pool"],
            "device": result["device"],
            "requests": [request],
            "cdiIDs": [f"{self._driver}/claim={ref.uid}-{request}"],
            "shareID": result.get("shareID") or "",
        }

    def _environments(
        self, ref: ClaimRef, allocation: Object, results: Sequence[Object]
    ) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for result in results:
            request = _base(result["request"])
            variables = found.setdefault(request, {})
            variables |= configured(self._driver, allocation.get("config") or [], result)
            variables[variable(request)] = "true"
            variables[variable(f"claim_{ref.name}_{request}")] = "true"
            names = [result["device"] for result in results if _base(result["request"]) == request]
            variables[variable(f"{self._driver}_{request}")] = ",".join(names)
        return found

    def _cdi_path(self, uid: str) -> Path:
        return self._cdi / f"{self._driver}-{uid}.json"

    def _save(self) -> None:
        self._files.write(self._record, orjson.dumps(self._prepared, option=orjson.OPT_INDENT_2), synced=True)


def configured(driver: str, configs: Sequence[Object], result: Object) -> dict[str, str]:
    """Opaque parameters for a result become variables, later ones over earlier ones.

    Raises ClaimError.
    """
    found: dict[str, str] = {}
    applying = [config for config in configs if _applies(config, result["request"])]
    for index, config in enumerate(applying):
        opaque = config.get("opaque") or {}
        if opaque.get("driver") != driver:
            continue
        kind = "admin" if config.get("source") == "FromClass" else "user"
        parameters = opaque.get("parameters") or {}
        if not isinstance(parameters, dict) or not all(isinstance(v, str) for v in parameters.values()):
            raise ClaimError(f"parameters in config #{index}: decoding {kind} parameters: {_why(parameters)}")
        found |= {f"{kind}_{key}": value for key, value in parameters.items()}
    return found


def _applies(config: Object, request: str) -> bool:
    named = config.get("requests") or []
    return not named or request in named or _base(request) in named


def _why(parameters: Any) -> str:
    """Words the error of Go's JSON decoder about a value that is not a string."""
    if not isinstance(parameters, dict):
        return f"json: cannot unmarshal {_kind(parameters)} into Go value of type map[string]string"
    wrong = next(value for value in parameters.values() if not isinstance(value, str))
    return f"json: cannot unmarshal {_kind(wrong)} into Go value of type string"


def _kind(value: Any) -> str:
    kinds: tuple[tuple[type, str], ...] = ((bool, "bool"), (dict, "object"), (list, "array"), (str, "string"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "number")


def _base(request: str) -> str:
    """Drops the subrequest: containers name requests only."""
    return request.split("/")[0]


def variable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


class CallLog:
    """The log in the driver's data directory of a node."""

    def __init__(self, data: Path, clock: Clock, files: StateFiles = UNJOURNALLED) -> None:
        self._journal = Journal(data / CALL_LOG, files)
        self._clock = clock

    def append(
        self, call: str, claims: Sequence[ClaimRef], answers: Mapping[str, Object], error: str = ""
    ) -> None:
        """Notes a call, the answer per claim UID, and the `error` of a call that fails as a whole."""
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

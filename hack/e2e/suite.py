"""Runs the specs of a given e2e.test, each in a process of its own with a limit, and compares with a record.

    hack/e2e/run E2E_TEST [--focus REGEX]… [--skip REGEX]… [--jobs N] [--timeout SECONDS] [--out FILE]

Without --kubeconfig it starts a cluster of the binary's release (`kubeskew up --like kind`) and removes it at
the end. Specs that have to be alone (Serial) run one by one after the others. Exit status: 0 if every spec
ended as the record says, 1 if one did not, 2 for wrong usage or a cluster that does not start.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PASSED, FAILED, SKIPPED, LOST = "passed", "failed", "skipped", "lost"
SIMULATED = "simulated"  # the runtime of a cluster that nobody gave another one
# A spec that is interrupted cleans up this long before it is killed.
_GRACE_SECONDS = 20.0
_NODES = 3
# The node of the control plane has a taint, as in kind.
_SUITE_FLAGS = (
    "--provider=skeleton",
    f"--num-nodes={_NODES}",
    "--allowed-not-ready-nodes=1",
    "--node-os-distro=debian",
    "--ginkgo.no-color",
)


class SuiteError(Exception):
    """The binary or the cluster cannot be used."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec of the binary by its full text; `serial` ones need the cluster for themselves."""

    name: str
    serial: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of one spec. The message is the first line of the failure, or says why it was skipped."""

    name: str
    state: str
    message: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Comparison:
    """The specs that ended otherwise than the record says."""

    broken: list[Verdict] = field(default_factory=list)  # the record has them as passed, or skipped
    mended: list[Verdict] = field(default_factory=list)  # the record has a reason for their failure
    unknown: list[Verdict] = field(default_factory=list)  # failed, and not in the record


# -- reports of ginkgo


def specs_of(report: Any) -> list[Spec]:
    """The specs that a dry run selected, each once, in the order of the report."""
    found: dict[str, Spec] = {}
    for spec in _leaves(report):
        if spec["State"] not in ("skipped", "pending"):
            name = _full_text(spec)
            found.setdefault(name, Spec(name, "[Serial]" in name or bool(spec.get("IsSerial"))))
    return list(found.values())


def verdict_of(report: Any, name: str) -> Verdict | None:
    """None if the report has no end of the spec; a failure of the suite's set-up counts as lost."""
    for suite in report:
        for spec in suite.get("SpecReports") or ():
            failure = spec.get("Failure") or {}
            seconds = spec.get("RunTime", 0) / 1e9
            # What an interrupted spec was waiting for comes after the interruption.
            later = [each["Failure"] for each in spec.get("AdditionalFailures") or () if each.get("Failure")]
            told = later[0] if later and spec["State"] in ("interrupted", "timedout") else failure
            message = first_message(told.get("Message", ""))
            if spec.get("LeafNodeType") != "It":
                if spec["State"] not in ("passed", "skipped"):
                    return Verdict(name, LOST, f"{spec['LeafNodeType']}: {message}", seconds)
            elif _full_text(spec) == name and (spec["State"] != "skipped" or failure):
                return Verdict(name, _STATES.get(spec["State"], LOST), message, seconds)
    return None


_STATES = {"passed": PASSED, "skipped": SKIPPED, "pending": SKIPPED, "failed": FAILED, "panicked": FAILED}


def _leaves(report: Any) -> Iterator[Any]:
    for suite in report:
        for spec in suite.get("SpecReports") or ():
            if spec.get("LeafNodeType") == "It":
                yield spec


def _full_text(spec: Any) -> str:
    texts = [*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText", "")]
    return " ".join(text for text in texts if text)


def first_message(text: str, longest: int = 300) -> str:
    """The first line that says something, without what differs from run to run."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", line)
    line = re.sub(r"\b([a-z][a-z-]*)-\d{1,5}\b", r"\1-N", line)
    return line if len(line) <= longest else line[: longest - 1] + "…"


# -- the record


def record_of(release: str, verdicts: Iterable[Verdict], before: Any = None, runtime: str = "") -> Any:
    """The verdicts as a record; specs that did not run are as in an earlier record.

    Failures keep the reasons that it gives, and others have their messages until somebody writes the reason.
    """
    before = before or {}
    known = reasons_of(before)
    states = {name: state for state in (PASSED, SKIPPED) for name in before.get(state, ())}
    states |= {name: state for state in (FAILED, LOST) for name in _named(before.get(state, {}))}
    found = {verdict.name: verdict for verdict in verdicts}
    runtime = runtime or before.get("runtime") or SIMULATED
    record: dict[str, Any] = {"release": release, "runtime": runtime}
    record |= {PASSED: [], FAILED: {}, LOST: {}, SKIPPED: []}
    for name in sorted({*states, *found}):
        verdict = found.get(name) or Verdict(name, states[name])
        if verdict.state in (PASSED, SKIPPED):
            record[verdict.state].append(name)
            continue
        reason = known.get(name) or f"to be explained: {verdict.message}"
        record[verdict.state].setdefault(reason, []).append(name)
    for state in (FAILED, LOST):
        record[state] = dict(sorted(record[state].items()))
    return record


def reasons_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The reason of each failure of a record, and of each spec that was lost."""
    return {
        name: reason for state in (FAILED, LOST) for name, reason in _named(record.get(state, {})).items()
    }


def _named(reasons: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {name: reason for reason, names in reasons.items() for name in names}


def runtime_of(up_flags: Sequence[str]) -> str:
    """The runtime that flags of `up` choose."""
    runtime = SIMULATED
    for flag, following in pairwise([*up_flags, ""]):
        name, equals, value = flag.partition("=")
        if name == "--runtime":
            runtime = value if equals else following
    return runtime


def record_path(release: str, runtime: str) -> Path:
    """The place of the shipped record of a release and a runtime."""
    of_runtime = "" if runtime == SIMULATED else f"-{runtime}"
    return HERE / f"expected-{_minor(release)}{of_runtime}.json"


def compare(record: Mapping[str, Any], verdicts: Iterable[Verdict]) -> Comparison:
    """A spec that passes, or that the suite skips, needs no entry; any other end needs one."""
    reasons = reasons_of(record)
    fine = {*record.get(PASSED, ()), *record.get(SKIPPED, ())}
    found = Comparison()
    for verdict in verdicts:
        failed = verdict.state in (FAILED, LOST)
        if failed and verdict.name in fine:
            found.broken.append(verdict)
        elif failed and verdict.name not in reasons:
            found.unknown.append(verdict)
        elif verdict.state == PASSED and verdict.name in reasons:
            found.mended.append(verdict)
    return found


# -- processes


@dataclass(frozen=True, slots=True)
class Binary:
    """A program of the suite with the cluster that its specs run against."""

    path: Path
    kubeconfig: str = ""
    kubectl: str = ""
    more: Sequence[str] = ()  # flags

    def release(self) -> str:
        """The version that it was built of, without the `v`. Raises SuiteError."""
        text = self._output("--version")
        found = re.search(r"v(\d+\.\d+\.\d+\S*)", text)
        if found is None:
            raise SuiteError(f"{self.path} --version says no version: {text.strip()[-200:]}")
        return found[1]

    def specs(self, focus: Sequence[str], skip: Sequence[str]) -> list[Spec]:
        """The specs that the expressions choose. Raises SuiteError."""
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.json"
            chosen = [f"--ginkgo.focus={each}" for each in focus] + [f"--ginkgo.skip={each}" for each in skip]
            text = self._output("--ginkgo.dry-run", f"--ginkgo.json-report={report}", *_SUITE_FLAGS, *chosen)
            if not report.exists():
                raise SuiteError(f"{self.path} lists no specs: {text.strip()[-300:]}")
            return specs_of(json.loads(report.read_text()))

    def _output(self, *arguments: str) -> str:
        try:
            ended = subprocess.run(
                [self.path, *arguments], capture_output=True, text=True, check=False, timeout=300
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SuiteError(f"{self.path}: {error}") from error
        return ended.stdout + ended.stderr

    def run(self, spec: Spec, seconds: float, logs: Path | None, stopping: threading.Event) -> Verdict:
        """Runs one spec; one that takes longer is interrupted, then killed, and is lost."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            report, output = Path(scratch) / "report.json", Path(scratch) / "output"
            flags = [f"--kubeconfig={self.kubeconfig}", f"--ginkgo.json-report={report}", *_SUITE_FLAGS]
            # Expressions are searched in the name of the suite and that of the spec.
            flags += [f"--ginkgo.focus=(^| ){re.escape(spec.name)}$", *self.more]
            if self.kubectl:
                flags.append(f"--kubectl-path={self.kubectl}")
            with output.open("wb") as written:
                process = subprocess.Popen(
                    [self.path, *flags],
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    cwd=scratch,
                    start_new_session=True,
                )
                late = not _ended(process, seconds, stopping)
            verdict = None
            with contextlib.suppress(OSError, ValueError):
                verdict = verdict_of(json.loads(report.read_text()), spec.name)
            text = output.read_text(errors="replace")
            if late and (verdict is None or verdict.state == LOST):
                said = f": {verdict.message}" if verdict is not None and verdict.message else ""
                verdict = Verdict(spec.name, LOST, f"no end within {seconds:g} s{said}")
            elif verdict is None:
                last = text.strip().splitlines()[-1:] or [""]
                status = process.returncode
                verdict = Verdict(
                    spec.name, LOST, f"no report, exit status {status}: {first_message(last[0])}"
                )
            if logs is not None and verdict.state in (FAILED, LOST):
                logs.mkdir(parents=True, exist_ok=True)
                (logs / f"{file_name(spec.name)}.log").write_text(text)
        return Verdict(verdict.name, verdict.state, verdict.message, time.monotonic() - began)


def file_name(spec: str) -> str:
    """A name for the log of a spec."""
    return re.sub(r"[^A-Za-z0-9]+", "-", spec).strip("-")[:180]


def _ended(process: "subprocess.Popen[bytes]", seconds: float, stopping: threading.Event) -> bool:
    """Waits for a process that leads a session; False if it had to be stopped."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stopping.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(1.0, max(0.01, until - time.monotonic())))
            return True
    for number, grace in ((signal.SIGINT, _GRACE_SECONDS), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1 if stopping.is_set() and number == signal.SIGINT else grace)
            break
    return False


def run_all(
    specs: Sequence[Spec], jobs: int, run: Callable[[Spec], Verdict], report: Callable[[Verdict], None]
) -> list[Verdict]:
    """Runs specs side by side, and then those that have to be alone, one by one."""
    verdicts = []
    for serial, workers in ((False, jobs), (True, 1)):
        chosen = [spec for spec in specs if spec.serial is serial]
        with ThreadPoolExecutor(workers) as pool:
            for done in as_completed([pool.submit(run, spec) for spec in chosen]):
                report(done.result())
                verdicts.append(done.result())
    return verdicts


@contextlib.contextmanager
def cluster(release: str, like: str, up_flags: Sequence[str]) -> Iterator[str]:
    """A cluster of a release, removed at the end; gives the path of its kubeconfig. Raises SuiteError."""
    python = ROOT / ".venv" / "bin" / "python"
    command = [str(python) if python.exists() else sys.executable, "-m", "kubeskew"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    state = Path(tempfile.mkdtemp(prefix="kubeskew-e2e-"))
    flags = ["--state-dir", str(state)]
    minor = ".".join(release.split(".")[:2])
    try:
        up = [*command, "up", *flags, "--version", minor, "--nodes", str(_NODES)]
        up += [*(["--like", like] if like != "none" else []), *up_flags]
        if subprocess.run(up, check=False, stdout=sys.stderr, env=environment).returncode:
            raise SuiteError(f"{' '.join(up)} failed")
        yield str(state / "kubeconfig")
    finally:
        down = [*command, "down", *flags, "--purge"]
        subprocess.run(down, check=False, stdout=sys.stderr, env=environment)
        shutil.rmtree(state, ignore_errors=True)


# -- the command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.partition("\n")[0])
    parser.add_argument("binary", type=Path, metavar="E2E_TEST", help="upstream's e2e.test")
    parser.add_argument("--focus", action="append", default=[], metavar="REGEX", help="specs to run")
    parser.add_argument("--skip", action="append", default=[], metavar="REGEX", help="specs to leave out")
    parser.add_argument("--specs", type=Path, metavar="FILE", help="a file of names to run, one a line")
    parser.add_argument("--recorded", action="store_true", help="run the specs of the record alone")
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="specs side by side [default: 4]")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for one spec [300]")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="of a cluster that runs")
    parser.add_argument("--kubectl", default=shutil.which("kubectl") or "", metavar="PATH")
    parser.add_argument("--image", action="append", default=[], metavar="NAME=PATH", help="for `up`")
    parser.add_argument("--like", choices=["kind", "none"], default="kind", help="for `up` [default: kind]")
    parser.add_argument(
        "--runtime",
        default="",
        metavar="NAME",
        help="that of the record [default: as --up says, or simulated]",
    )
    parser.add_argument("--up", action="append", default=[], metavar="FLAG", help="a flag for `up`")
    parser.add_argument("--flag", action="append", default=[], metavar="FLAG", help="a flag for the binary")
    parser.add_argument("--expected", type=Path, metavar="FILE", help="the record to compare with")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write or bring up to date a record")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all verdicts as JSON")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the output of what failed")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; gives the exit status."""
    options = _parser().parse_args(arguments)
    binary = Binary(options.binary.absolute(), options.kubeconfig, options.kubectl, options.flag)
    try:
        release = binary.release()
        runtime = options.runtime or runtime_of(options.up)
        path = options.expected or record_path(release, runtime)
        record = _record(path, options.expected)
        _check_runtime(record, runtime, path)
        if options.record:
            _check_runtime(_record(options.record, None), runtime, options.record)
        # Without an expression the suite leaves out what needs a feature.
        focus = options.focus or (["."] if options.specs or options.recorded else [])
        specs = binary.specs(focus, options.skip)
        if options.specs:
            wanted = set(options.specs.read_text().splitlines())
            specs = [spec for spec in specs if spec.name in wanted]
        if options.recorded:
            recorded = {*record.get(PASSED, ()), *record.get(SKIPPED, ()), *reasons_of(record)}
            specs = [spec for spec in specs if spec.name in recorded]
        if not specs:
            raise SuiteError("no spec is chosen")
        with contextlib.ExitStack() as stack:
            kubeconfig = options.kubeconfig
            if not kubeconfig:
                images = [flag for image in options.image for flag in ("--image", image)]
                kubeconfig = stack.enter_context(cluster(release, options.like, [*options.up, *images]))
            verdicts = _verdicts(Binary(binary.path, kubeconfig, binary.kubectl, binary.more), specs, options)
    except (SuiteError, OSError) as error:
        print(f"hack/e2e/run: {error}", file=sys.stderr)
        return 2
    return _conclude(release, runtime, verdicts, record, options)


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _record(path: Path, named: Path | None) -> dict[str, Any]:
    """An empty record if the release has none. Raises SuiteError."""
    if not path.exists():
        if named is not None:
            raise SuiteError(f"there is no {path}")
        return {}
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise SuiteError(f"{path}: {error}") from error
    return record


def _check_runtime(record: Mapping[str, Any], runtime: str, path: Path) -> None:
    """Failures that acting containers explains are not expected of those that run. Raises SuiteError."""
    of_record = record.get("runtime", runtime)
    if of_record != runtime:
        raise SuiteError(f"{path} is a record of the runtime {of_record}, not of {runtime} (see --runtime)")


def _verdicts(binary: Binary, specs: Sequence[Spec], options: argparse.Namespace) -> list[Verdict]:
    stopping = threading.Event()
    ended = 0

    def report(verdict: Verdict) -> None:
        nonlocal ended
        ended += 1
        text = f": {verdict.message}" if verdict.message else ""
        line = f"{ended}/{len(specs)} {verdict.state} {verdict.seconds:.1f} s {verdict.name}{text}"
        print(line, file=sys.stderr, flush=True)

    def run(spec: Spec) -> Verdict:
        if stopping.is_set():
            return Verdict(spec.name, LOST, "not run: interrupted")
        return binary.run(spec, options.timeout, options.logs, stopping)

    before = signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    try:
        return run_all(specs, options.jobs, run, report)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _conclude(
    release: str,
    runtime: str,
    verdicts: Sequence[Verdict],
    record: Mapping[str, Any],
    options: argparse.Namespace,
) -> int:
    found = compare(record, verdicts)
    if options.record:
        before = json.loads(options.record.read_text()) if options.record.exists() else {}
        text = json.dumps(record_of(release, verdicts, before, runtime), indent=1, ensure_ascii=False)
        options.record.write_text(text + "\n")
    counts = {state: sum(verdict.state == state for verdict in verdicts) for state in _ORDER}
    result = {
        "release": release,
        "counts": counts,
        "unexpected": [verdict.name for verdict in (*found.broken, *found.unknown)],
        "mended": [verdict.name for verdict in found.mended],
        "specs": [
            {
                "name": each.name,
                "state": each.state,
                "seconds": round(each.seconds, 1),
                "message": each.message,
            }
            for each in sorted(verdicts, key=lambda each: each.name)
        ],
    }
    if options.out:
        options.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if options.output == "json":
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        print(", ".join(f"{number} {state}" for state, number in counts.items()))
        for title, group in (
            ("passed before", found.broken),
            ("not in the record", found.unknown),
            ("mended", found.mended),
        ):
            for verdict in group:
                print(f"{title}: {verdict.name}{': ' if verdict.message else ''}{verdict.message}")
    return 1 if found.broken or found.unknown else 0


_ORDER = (PASSED, FAILED, SKIPPED, LOST)

"""The files of a node's kubelet, runtime and drivers, with their journal: recorded as they are written."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from disk_recorder import Recorder

from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.journal import (
    FilesForgottenError,
    JournalledFiles,
    apply_record,
    node_files_at,
    positions,
    segment_numbers,
    segment_path,
)

CHECKPOINTS = (
    "kubelet/dra_manager_state",
    "kubelet/cpu_manager_state",
    "drivers/gpu/prepared.json",
    "cdi/a.json",
)
LOOSE = ("runtime/a.json", "runtime/b.json")
SEGMENT_BYTES = 6000
Check = Callable[[Path, int], Awaitable[list[str]]]


@dataclass(frozen=True)
class Written:
    """A checkpoint was written between two numbers of operations."""

    since: int
    at: int
    name: str
    revision: int
    content: bytes


async def record_checkpoints(random: Random, root: Path, steps: int) -> tuple[Recorder, Check]:
    """Checkpoints that a kubelet went on with are there, at each revision, and it can start."""
    recorder, written, revision = Recorder(root), list[Written](), 1
    node = root / "node-1"

    def newest() -> int:
        return revision

    with recorder.recording():
        files = JournalledFiles(node, newest, most=SEGMENT_BYTES)
        files.reconcile()
        for _ in range(steps * 2):
            revision += random.randint(1, 3)
            await _step(random, files, node, recorder, written, revision)
            if random.random() < 0.05:
                files = JournalledFiles(node, newest, most=SEGMENT_BYTES)
                files.reconcile()
            recorder.observe()

    async def check(crashed: Path, cut: int) -> list[str]:
        return judge_node(crashed / "node-1", written, cut)

    return recorder, check


async def _step(
    random: Random,
    files: JournalledFiles,
    node: Path,
    recorder: Recorder,
    written: list[Written],
    revision: int,
) -> None:
    choice = random.random()
    content = random.randbytes(random.choice((10, 200, 700, 3000)))
    if random.random() < 0.7:
        content = content.hex().encode()
    if choice < 0.5:
        name, since = random.choice(CHECKPOINTS), recorder.position
        files.write(node / name, content, synced=True)
        written.append(Written(since, recorder.position, name, revision, content))
    elif choice < 0.65:
        files.write(node / random.choice(LOOSE), content)
    elif choice < 0.85:
        Journal(node / "runtime" / "events.jsonl", files).append({"revision": revision})
    elif choice < 0.9:
        files.remove(node / random.choice(LOOSE))
    elif choice < 0.95:
        files.make_directory(node / "kubelet" / "device-plugins")
    else:
        files.mark()


def judge_node(node: Path, written: Sequence[Written], cut: int) -> list[str]:
    """Returns what is wrong with the files that a crash has left, when a kubelet starts on them."""
    found: list[str] = []
    told = [each for each in written if each.at <= cut]
    begun = [each for each in written if each.since <= cut < each.at]
    last = {each.name: each for each in told}
    newest = written[-1].revision + 100  # than all that was seen: the log has not lost any
    for name in CHECKPOINTS:
        there = (node / name).read_bytes() if (node / name).exists() else None
        allowed = [last[name].content if name in last else None]
        allowed += [each.content for each in begun if each.name == name]
        if there not in allowed:
            found.append(f"{name} is {_shown(there)}, and was told to be {_shown(allowed[0])}")
    found += _past(node, told, newest)
    try:
        files = JournalledFiles(node, lambda: newest, most=SEGMENT_BYTES)
        files.reconcile()
        known, there = _known(node), files.found()
        if {name: content for name, content in known.items() if not name.endswith("/")} != there:
            found.append(f"the journal has {sorted(known)}, and the node {sorted(there)}")
        Journal(node / "runtime" / "events.jsonl", files).entries()
        files.write(node / CHECKPOINTS[0], b"after", synced=True)
        if node_files_at(node, newest)[CHECKPOINTS[0]] != b"after":
            found.append("a write after the crash is not in the journal")
    except (OSError, ValueError) as error:
        found.append(f"a kubelet does not start: {error!r}")
    return found


def _past(node: Path, told: Sequence[Written], newest: int) -> list[str]:
    """Compares what the journal has at the revisions of what was told."""
    latest: dict[str, Written] = {}
    for each in told:
        latest[each.name] = each
        try:
            files = node_files_at(node, each.revision)
        except FilesForgottenError:
            if each is told[-1]:
                return [f"the journal has forgotten revision {each.revision}, the newest is {newest}"]
            continue
        for name, last in latest.items():
            if files.get(name) != last.content:
                known = f"at revision {each.revision} the journal has {name} as {_shown(files.get(name))}"
                return [f"{known}, and {_shown(last.content)} was told"]
    return []


def _known(node: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    journal = node / "journal"
    for number in segment_numbers(journal)[-1:]:
        for position in positions(segment_path(journal, number).read_bytes()):
            apply_record(files, position.record)
    return files


def _shown(content: bytes | None) -> str:
    return "nothing" if content is None else f"{len(content)} bytes {content[:12]!r}"

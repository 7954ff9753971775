"""The project's own rules that no linter knows."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from kubeskew.cli.main import COMMANDS
from kubeskew.conformance.loader import load

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "apimachinery", "apiserver", "conformance", "controllers",
    "kubelet", "kubeskew", "metricsserver", "migrations", "scheduler", "simulation",
)  # fmt: skip
BANNED_NAMES = {
    "utils", "util", "common", "helpers", "misc", "manager_utils",
    # Words that say how it feels to use a module, not what it is.
    "beside", "listed", "derived", "following", "remembering", "garbage", "shelves", "window", "shapes",
    "normalising", "passing", "panics", "insides", "interiors", "contents", "creating", "patience", "turns",
}  # fmt: skip
CLOCK = "apimachinery/clock.py"
# The clock and the randomness of the process, which only the module of clocks may touch.
FORBIDDEN_CALLS = {
    "time.time", "time.monotonic", "time.sleep", "datetime.now", "datetime.utcnow", "datetime.today",
    "uuid.uuid4", "uuid.uuid1", "random.random", "random.choice", "random.randint",
    "os.urandom", "random.SystemRandom", "secrets.token_urlsafe", "secrets.token_hex", "secrets.token_bytes",
}  # fmt: skip
# What draws from the operating system all the same, and why.
DRAWN_OUTSIDE = {
    "apimachinery/streaming/websocket.py": {
        "os.urandom"
    },  # masks of frames are to be unpredictable (RFC 6455)
    "kubeskew/cluster/pki.py": {"secrets.token_urlsafe"},  # credentials
    "kubeskew/shim/audit_webhook.py": {"secrets.token_urlsafe"},  # a path that is to be a secret
    "kubeskew/cluster/ports.py": {"random.SystemRandom"},  # free ports; no component draws them
}

MODULES = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.resolve() == path
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


parsed_once = pytest.mark.xdist_group("modules")


class Facts(NamedTuple):
    """Holds what the rules ask of a module, which is parsed once for all of them."""

    docstring: str | None
    calls: frozenset[str]
    names: tuple[str, ...]  # of classes and constants


@cache
def facts_of(path: Path) -> Facts:
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    calls = frozenset(dotted(node.func) for node in nodes if isinstance(node, ast.Call))
    return Facts(ast.get_docstring(tree), calls, tuple(defined_names(tree)))


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Yields the names of a module's classes and constants."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@parsed_once
def test_time_and_randomness_come_from_one_place():
    """No module but the clock's reads the wall clock or makes an identifier."""
    ends = tuple(f".{call}" for call in sorted(FORBIDDEN_CALLS))
    found = {
        name_of(path): {call for call in facts_of(path).calls if f".{call}".endswith(ends)}
        for path in MODULES
        if name_of(path) != CLOCK
    }
    assert {name: calls for name, calls in found.items() if calls} == DRAWN_OUTSIDE


TESTS = sorted((ROOT / "tests").rglob("*.py"))
SEEDED = {"Random", "random.Random"}  # with an argument
NAMES_RUNS = {"tests/transcripts.py", "tests/cluster/sessions.py"}  # names of objects, which decide nothing


def test_tests_draw_the_same_each_time():
    """No test draws from a source without a seed."""
    drawing = {name_of(path) for path in TESTS if draws_unseeded(ast.parse(path.read_text()))}
    assert drawing - NAMES_RUNS == set()


def draws_unseeded(tree: ast.Module) -> bool:
    """Says whether a module calls a source of randomness other than one with a seed."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    drawing = [call for call in calls if dotted(call.func).split(".")[0] in {"random", "secrets", "Random"}]
    return any(dotted(call.func) not in SEEDED or not call.args for call in drawing)


def test_the_usual_profile_is_repeatable(request: pytest.FixtureRequest):
    """Hypothesis draws the same examples each time, regardless of what it drew before, unless asked
    otherwise."""
    if request.config.getoption("--hypothesis-profile"):
        pytest.skip("another profile is asked for")
    assert settings.default is not None
    assert settings.default.derandomize
    assert (settings.default.database, settings.default.deadline) == (None, None)


# Types that all code shares, and the module of each.
SHARED_TYPES = {
    "Object": "apimachinery/objects.py",
    "ObjectView": "apimachinery/objects.py",
    "FieldError": "apimachinery/field.py",
    "StatusError": "apimachinery/errors.py",
    "GroupResource": "apimachinery/errors.py",
    "GroupVersionKind": "apimachinery/resources.py",
}


@parsed_once
def test_shared_types_have_one_definition():
    """A type that all code shares is defined once, so that its name means the same everywhere."""
    found = {
        (name, name_of(path)) for path in MODULES for name in facts_of(path).names if name in SHARED_TYPES
    }
    assert found == set(SHARED_TYPES.items())


@parsed_once
def test_modules_say_what_they_are_for():
    """Every module has a docstring and a name of the domain."""
    assert [name_of(path) for path in MODULES if not facts_of(path).docstring] == []
    assert [name_of(path) for path in MODULES if path.stem in BANNED_NAMES] == []


QUESTION = re.compile(r"(?:What|Which|Who|Whose|Whom|How|Where|When|Whether|Why|As|That|If)\b")


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "benchmarks", "hack"])
def test_docstrings_begin_with_what_is_done(folder: str):
    """A docstring begins with what is done, returned or must hold, never with a question."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [
        f"{name_of(path)}: {docstring.splitlines()[0]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.resolve() == path
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, documented)
        if QUESTION.match(docstring := ast.get_docstring(node) or "")
    ]
    assert found == []


ORDERS = """
from collections.abc import Set as AbstractSet

class Held:
    frozen: frozenset[str] = frozenset()
    def __init__(self) -> None:
        self.made = {"a"}

def loops(held: Held, given: AbstractSet[str], some: set[str] | None, either: set[str] | list[str]) -> None:
    numbers = {"a": 1}
    local = {name for name in numbers}
    for name in held.made: print(name)  # reported
    for name in held.frozen: print(name)  # reported
    for name in given: print(name)  # reported
    for name in some or (): print(name)  # reported
    for name in either: print(name)  # reported
    for name in local: print(name)  # reported
    for name in numbers.keys() - local: print(name)  # reported
    for name in numbers.keys(): print(name)
    for name in sorted(local): print(name)

def displays(held: Held, local: set[str], numbers: dict[str, int]) -> None:
    print([name for name in local])  # reported
    print({name: 1 for name in local})  # reported
    print([*local, *numbers])  # reported
    print((*local, "x"))  # reported
    print({name for name in local}, {*local, *held.made}, sorted([*local]), (*numbers, "x"))

def calls(held: Held, local: set[str]) -> None:
    print(list(local))  # reported
    print(tuple(held.made))  # reported
    print(",".join(local))  # reported
    print(next(iter(local)))  # reported
    print(local.pop())  # reported
    print(*local)  # reported
    print(sorted(local, key=len))  # reported
    print(min(local, key=len))  # reported
    for number, name in enumerate(local): print(number, name)  # reported
    for name in map(str, local): print(name)  # reported
    print("a" in local, len(local), local | held.made, min(local), any(name for name in local), 2**3)
    print(sorted(name for name in local), sorted(map(str, local)), frozenset(local))
    local.update(name for name in held.made)
"""


def test_the_order_of_sets_is_reported(tmp_path: Path):
    """mypy, as it is set up here, reports exactly what depends on the order of a set."""
    sample = tmp_path / "sample.py"
    sample.write_text(ORDERS)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(sample)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    lines = ORDERS.splitlines()
    expected = [number for number, line in enumerate(lines, 1) if line.endswith("# reported")]

    assert [line for line in output.splitlines()[:-1] if "[set-order]" not in line] == []
    assert sorted({int(line.split(":")[1]) for line in output.splitlines()[:-1]}) == expected


# Steps of our scenarios that have the passing of time as their subject, with how much of it they let pass.
# Some are periods of real components that leave no trace: syncs of jobs, metrics of queues, new watches.
PASSING_TIME = {
    ("known-bugs/k8s-122636.yaml", "the gate goes"): ["1100ms"],
    ("known-bugs/k8s-122646.yaml", "a pod that is being deleted"): ["2100ms"],
    ("known-bugs/k8s-130333.yaml", "it has no other pod"): ["2s"],
    ("known-bugs/k8s-132121.yaml", "a pod is ready"): ["1500ms"],
    ("known-bugs/k8s-134730.yaml", "a pod leaves the other node"): ["2s"],
    ("known-bugs/k8s-134769.yaml", "the job is suspended"): ["1100ms"],
    ("known-bugs/k8s-135428.yaml", "a pod is ready"): ["1500ms"],
    ("known-bugs/k8s-138435.yaml", "no pod is being tried any more"): ["2s"],
    ("known-bugs/k8s-141107.yaml", "later another device has one"): ["1100ms"],
    ("known-bugs/k8s-141274.yaml", "nobody writes the claim any more"): ["3s"],
    ("dra/binding-conditions.yaml", "a pod waits for its device"): ["6s"],
    ("dra/control-plane.yaml", "must apply per-node permission checks"): ["2s"],
    ("dra/churn.yaml", "a class, a template and a quota wait for a minute"): ["65s"],
    ("upgrade/init-container-devices.yaml", "the pod with an init container runs on"): ["8s"],
    ("kep-5004/names.yaml", "a class gives a name to the devices of a driver"): ["1100ms"],
    ("kep-4815/stages.yaml", "its components change, and the pods live on"): [
        "($hop.to == '1.35' && $hop.direction == 'upgrade' && '3s' || '0s')"
    ],
    ("kep-4381/capacity.yaml", "one that ends leaves less than nothing, so that the next one still waits"): [
        "2s"
    ],
}


def test_scenarios_await_what_they_need():
    """No scenario sleeps, but where the passing of time is the subject."""
    root = ROOT / "conformance" / "scenarios"
    sleeps: dict[tuple[str, str], list[str]] = {}
    for path in sorted(root.rglob("*.yaml")):
        for step in load(path).steps:
            for operation in step.all_operations():
                if operation.kind == "sleep":
                    where = (str(path.relative_to(root)), step.name)
                    sleeps.setdefault(where, []).append(operation.body["duration"])
    assert sleeps == PASSING_TIME


def test_no_operation_hides_behind_an_expected_failure():
    """A recorded failure as upstream never keeps the operations behind it from running."""
    record = (ROOT / "conformance" / "outcomes.json").read_text()
    assert [line for line in record.splitlines() if "operations behind it not run" in line] == []


def test_readme_commands_exist():
    """Every `make` target and every `kubeskew` command that the README shows is there."""
    from kubeskew.cli.main import COMMANDS

    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = set(re.findall(r"(?:^ +|`)make ([a-z-]+)", readme, re.MULTILINE))
    assert shown <= targets
    assert set(re.findall(r"^ +kubeskew ([a-z-]+)", readme, re.MULTILINE)) <= set(COMMANDS)


@pytest.mark.xdist_group("tidy")
def test_groups_stay_together(request: pytest.FixtureRequest):
    """The tests of a group run in one process, else each process starts the group's cluster for itself.

    pytest-xdist knows groups by the ends of node ids, which not every pytest lets it write.
    """
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("the tests are not run in groups")
    if f"pytest=={pytest.__version__}\n" not in (ROOT / "constraints.txt").read_text():
        pytest.skip("the installed pytest is not the one of constraints.txt")
    assert request.node.nodeid.endswith("@tidy")


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "benchmarks", "hack"])
def test_imports_name_the_one_package(folder: str):
    """`apiserver.x` and `kubeskew.apiserver.x` would be two modules made of one file."""
    bare = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(set(PACKAGES) - {'kubeskew'})})\b", re.MULTILINE)
    found = [
        name_of(path)
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.resolve() == path and bare.search(path.read_text())
    ]
    assert found == []


def test_every_module_has_its_layer():
    """The contracts of layers are exhaustive, so that a new folder cannot stand outside of them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layered = [contract for contract in contracts if contract["type"] == "layers"]
    assert {"kubeskew", "kubeskew.apiserver"} <= {
        name for contract in layered for name in contract["containers"]
    }
    assert [contract["name"] for contract in layered if not contract.get("exhaustive")] == []


# Folders of tests that mirror no folder of the product.
OWN_FOLDERS = ("tests/cluster", "tests/data", "tests/people", "tests/real")


def test_tests_mirror_the_code():
    """The tests of a folder stand in the folder of the same name below tests/, where one looks for them."""
    folders = sorted({path.parent.relative_to(ROOT) for path in TESTS} - {Path("tests")})
    mirrored = [folder for folder in folders if not str(folder).startswith(OWN_FOLDERS)]
    assert mirrored
    missing = [str(folder) for folder in mirrored if not (ROOT / folder.relative_to("tests")).is_dir()]
    assert missing == []


def test_tests_import_none_of_other_folders():
    """A helper of several folders is a module of its own, so that each folder can be run alone."""
    places = {path.stem: path.parent for path in TESTS}
    imported = re.compile(r"^from (test_\w+) import", re.MULTILINE)
    found = [
        f"{name_of(path)}: {name}"
        for path in TESTS
        for name in imported.findall(path.read_text())
        if places[name] not in path.parents
    ]
    assert found == []


# What may compare minors and ask for gates: the vocabulary of features, versions, gates and bugs themselves,
# the catalogue, and the rules of skew.
DECIDES_VERSIONS = (
    "apimachinery/catalogue/",
    "apimachinery/features.py",
    "apimachinery/gates.py",
    "apimachinery/known_bugs.py",
    "apimachinery/periods.py",
    "apimachinery/versions.py",
    "kubeskew/cluster/skew.py",
    "kubeskew/releases/",  # makes the catalogue
)
MINOR_OR_PREVIEW = re.compile(r"(?:^|[._])(?:minor|preview)$")
ASKED = {"gates.enabled", "gates.knows", "gates.spec", "bugs.present", "bugs.mended"}


def compares_versions(tree: ast.Module) -> bool:
    """Says whether a module compares minors or previews, or asks whether a gate is on or a bug is there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            compared = [dotted(side) for side in (node.left, *node.comparators)]
            membership = all(
                isinstance(operator, ast.Is | ast.IsNot | ast.In | ast.NotIn) for operator in node.ops
            )
            if not membership and any(map(MINOR_OR_PREVIEW.search, compared)):
                return True
        if isinstance(node, ast.Call) and any(dotted(node.func).endswith(name) for name in ASKED):
            return True
    return False


def test_versions_and_gates_are_decided_in_tables_of_features():
    """Modules read named decisions; they compare no minors, and ask for no gate and no known bug."""
    found = {
        name_of(path)
        for path in MODULES
        if not name_of(path).startswith(DECIDES_VERSIONS) and compares_versions(ast.parse(path.read_text()))
    }
    assert found == set()


# Groups that register another group's modules, and why.
BORROWED = {("events", "core")}  # the events of both groups are one resource
REGISTRATION = re.compile(r'"kubeskew\.apiserver\.registry\.(\w+)\.[\w.]+:\w+"')


def test_groups_register_their_own():
    """A group registers modules of its own or shared ones by name: no import shows that to import-linter."""
    registry = ROOT / "apiserver/registry"
    registered = {
        (path.relative_to(registry).parts[0], group)
        for path in registry.glob("**/__init__.py")
        for group in REGISTRATION.findall(path.read_text())
    }
    assert registered
    foreign = {(of, group) for of, group in registered if group not in (of, "shared", "generic")}
    assert foreign == BORROWED


DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs", "examples", "hack")
# Blocks that tests/cluster/test_documents_run.py writes and runs.
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# What stands for a name that the reader chooses: GROUP, KIND, NAME.
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")


def exists(path: str) -> bool:
    """Says whether a document's path is there: from the top, or the end of one, `*` for anything."""
    if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
        return bool(list(ROOT.glob(path.rstrip("/"))))
    return any(list(ROOT.glob(f"{folder}/**/{path}")) for folder in FOLDERS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_documents_name_what_exists(path: Path):
    """Every path, command and `make` target that a document names is there, or a file that it shows."""
    written = set(re.findall(r'^```\w+ title="([^"]+)"$', path.read_text(), re.MULTILINE))
    text = FENCED.sub("", path.read_text())
    quoted = re.findall(r"`([^`]+)`", text)
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    words = [word for piece in (*quoted, *lines) for word in piece.split()]
    paths = {
        word
        for word in (word.strip("(),;:") for word in words)
        if word.startswith(tuple(f"{folder}/" for folder in FOLDERS)) or word.endswith(".py")
    }
    missing = {word for word in paths - written if not PLACEHOLDER.search(word) and not exists(word)}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    missing |= {
        f"make {target}"
        for piece in (*quoted, *lines)
        for target in re.findall(r"^make ([a-z-]+)", piece)
        if target not in targets
    }
    missing |= {
        f"kubeskew {command}"
        for piece in (*quoted, *lines)
        for command in re.findall(r"(?:^|bin/)kubeskew ([a-z-]+)", piece)
        if command not in COMMANDS
    }
    missing |= {
        target
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text)
        if not (path.parent / target).exists()
    }
    assert missing == set()


def test_differences_from_upstream_are_marked():
    """Every row of docs/fidelity.md has a difference, and ends with one of the marks explained there."""
    lines = (ROOT / "docs/fidelity.md").read_text().splitlines()
    rows = [
        line for line in lines if line.startswith("|") and not line.startswith(("| ---", "| what", "| mark"))
    ]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    marks = {cell[0].strip("*") for cell in cells if len(cell) == 2}
    assert [row[0] for row in cells if len(row) > 2 and (row[-1] not in marks or not row[0])] == []
    assert {"later", "by design", "memory", "unknown"} < marks

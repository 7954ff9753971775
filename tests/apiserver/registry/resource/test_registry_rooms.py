"""Folders with former designs of dynamic resource allocation can be deleted: nothing else needs them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
# Folders of a former design, the modules that may name them, and the folders that build on them.
ROOMS = {
    "apiserver/registry/cdi": ("apiserver/registry/index.py",),
    "apiserver/registry/resource/classic": (
        "apiserver/registry/index.py",
        "apiserver/registry/resource/semantic/",
    ),
    "apiserver/registry/resource/semantic": ("apiserver/registry/index.py",),
}
PACKAGES = ("apimachinery", "apiserver", "conformance", "controllers", "kubelet", "kubeskew", "simulation")


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_but_the_registration_names_a_former_design(room: str) -> None:
    """Imports and strings that name modules count: import-linter sees imports alone."""
    module = f"kubeskew.{room.replace('/', '.')}"
    named = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if module in path.read_text()
    }
    allowed = (f"{room}/", *ROOMS[room])
    assert [name for name in sorted(named) if not name.startswith(allowed)] == []


WITHOUT = """
import pkgutil, sys
from importlib import import_module

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(GONE):
            raise ModuleNotFoundError(name)

ROOMS = ("cdi", "resource.classic", "resource.semantic")
GONE = tuple(f"kubeskew.apiserver.registry.{room}" for room in ROOMS)
sys.meta_path.insert(0, Gone())
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apiserver import registry
from kubeskew.apiserver.registry import index, resource
index.EARLIER_GENERATIONS.clear()
del index.GROUP_PACKAGES["cdi.k8s.io"]
for module in pkgutil.walk_packages(registry.__path__, f"{registry.__name__}.", onerror=lambda name: None):
    if not module.name.startswith(GONE):
        import_module(module.name)
from kubeskew.apiserver.registry.generic.strategy import Strategy, strategy_of
for name in resource.STRATEGIES:
    assert strategy_of(GroupResource("resource.k8s.io", name)) is not Strategy
assert strategy_of(GroupResource("resource.k8s.io", "resourceclasses")) is Strategy
assert strategy_of(GroupResource("cdi.k8s.io", "resourceclaims")) is Strategy
"""


def test_the_registry_does_without_former_designs() -> None:
    """With their folders gone every other module can be imported, and today's kinds have their strategies."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr

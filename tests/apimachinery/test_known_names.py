"""Tests which components a name means."""

import pytest

from kubeskew.apimachinery.known_names import all_names, meant

COMPONENTS = [
    "apiserver-1",
    "apiserver-2",
    "scheduler",
    "kubelet/a",
    "driver/gpu.example.com",
    "driver/example.com/card",
    "driver-controller/gpu.example.com",
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("apiserver", ["apiserver-1", "apiserver-2"]),
        ("apiserver-2", ["apiserver-2"]),
        ("scheduler", ["scheduler"]),
        ("kubelet", ["kubelet/a"]),
        ("driver/gpu.example.com", ["driver/gpu.example.com", "driver-controller/gpu.example.com"]),
        ("driver-plugin/gpu.example.com", ["driver/gpu.example.com"]),
        ("driver-controller/gpu.example.com", ["driver-controller/gpu.example.com"]),
        ("driver/example.com/card", ["driver/example.com/card"]),
        ("driver-plugin", ["driver/gpu.example.com", "driver/example.com/card"]),
        ("driver", COMPONENTS[4:]),
        ("driver-controller/example.com/card", []),
        ("driver/gpu", []),
        ("kubelet/b", []),
        ("", []),
    ],
)
def test_names(name: str, expected: list[str]):
    """A driver's name means its plugins and its controller, a kind all of it, other names one component."""
    assert meant(name, COMPONENTS) == expected
    assert (name in all_names(COMPONENTS)) == bool(expected)

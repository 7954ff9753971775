"""Reads the YAML of scenarios and profiles, whose mistakes are the scenario's."""

from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery.yaml_files import explain, load_checked
from kubeskew.conformance.errors import ScenarioError


def documents(text: str, source: str) -> list[Any]:
    """The documents of a text, without the empty ones. Raises ScenarioError that names `source`."""
    try:
        return [value for value in load_checked(text) if value is not None]
    except yaml.YAMLError as error:
        raise ScenarioError(f"{source}: {explain(error)}") from error


def read(path: Path) -> list[Any]:
    """The documents of a file. Raises ScenarioError with the file, and the line where something is wrong."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"cannot read {path}: it is not UTF-8") from error
    return documents(text, str(path))

"""Describes an image that containers can be made of.

Source: the OCI image specification, config.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class BadImageError(Exception):
    """The source of an image cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """The part of an image's configuration that containers take."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = ""
    user: str = ""
    stop_signal: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "ImageConfig":
        """Reads the `config` of an OCI configuration."""
        pairs = [text.partition("=") for text in config.get("Env") or []]
        return cls(
            entrypoint=[*(config.get("Entrypoint") or [])],
            command=[*(config.get("Cmd") or [])],
            env={name: value for name, _, value in pairs},
            working_directory=config.get("WorkingDir") or "",
            user=config.get("User") or "",
            stop_signal=config.get("StopSignal") or "",
        )


@dataclass(frozen=True, slots=True)
class UnpackedImage:
    """An image with a root file system, which containers only read."""

    id: str  # sha256:…, of the configuration
    digest: str  # sha256:…, of the manifest
    size: int
    root: Path
    config: ImageConfig

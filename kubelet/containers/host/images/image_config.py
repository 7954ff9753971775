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
        """Reads the `config` of an OCI configuration. Raises BadImageError."""
        pairs = [text.partition("=") for text in _words(config, "Env")]
        return cls(
            entrypoint=_words(config, "Entrypoint"),
            command=_words(config, "Cmd"),
            env={name: value for name, _, value in pairs},
            working_directory=_word(config, "WorkingDir"),
            user=_word(config, "User"),
            stop_signal=_word(config, "StopSignal"),
        )


def _words(config: Mapping[str, Any], key: str) -> list[str]:
    words = config.get(key) or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadImageError(f"{key} of the image's configuration is no list of strings")
    return words


def _word(config: Mapping[str, Any], key: str) -> str:
    word = config.get(key) or ""
    if not isinstance(word, str):
        raise BadImageError(f"{key} of the image's configuration is no string")
    return word


@dataclass(frozen=True, slots=True)
class UnpackedImage:
    """An image with a root file system, which containers only read."""

    id: str  # sha256:…, of the configuration
    digest: str  # sha256:…, of the manifest
    size: int
    root: Path
    config: ImageConfig

"""Knows facts about images; none is ever pulled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubeskew.apimachinery.memo import remembered
from kubeskew.kubelet.containers.execution.process import Runner
from kubeskew.kubelet.containers.servers import nginx

# Images with a distribution's programs. What the fake containers do not have is taken to be absent in them.
_PLAIN = frozenset(
    {"busybox", "alpine", "debian", "ubuntu", "bash", "centos", "fedora", "rockylinux", "almalinux"}
)


@dataclass(frozen=True, slots=True)
class Image:
    """Holds what is known of an image: the program that it runs, with its files and variables."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # by path from the top
    programs: Mapping[str, Runner] = field(default_factory=dict)  # those that only it has, by name
    variables: Mapping[str, str] = field(default_factory=dict)


_UNKNOWN = Image()


@remembered(256)
def image_of(name: str) -> Image:
    """Returns what is known of an image; nothing of most."""
    if _name(name) != "nginx":
        return _UNKNOWN
    tag = name.split("@")[0].rpartition("/")[2].partition(":")[2]
    return Image(
        nginx.ENTRYPOINT,
        nginx.COMMAND,
        nginx.FILES,
        {"nginx": nginx.nginx, "nginx-debug": nginx.nginx},
        {nginx.VERSION_VARIABLE: nginx.version_of(tag)},
    )


def is_known(name: str) -> bool:
    """Returns whether it is known what an image runs by itself."""
    return image_of(name) is not _UNKNOWN


def arguments(name: str, command: Sequence[str], args: Sequence[str]) -> list[str]:
    """Returns what a container runs: its command, or else what its image has, and its arguments."""
    if command:
        return [*command, *args]
    image = image_of(name)
    return [*image.entrypoint, *(args or image.command)]


def is_busybox(image: str) -> bool:
    """Returns whether the tools of the image are those of busybox."""
    return "busybox" in image or "alpine" in image


def has_unknown_programs(image: str) -> bool:
    """Returns whether the image may have programs that the fake containers do not have."""
    return _name(image) not in _PLAIN


def _name(image: str) -> str:
    return image.split("@")[0].rpartition("/")[2].split(":")[0]

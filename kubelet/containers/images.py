"""Knows facts about images; none is ever pulled."""

# Images with a distribution's programs. What the fake containers do not have is taken to be absent in them.
_PLAIN = frozenset(
    {"busybox", "alpine", "debian", "ubuntu", "bash", "centos", "fedora", "rockylinux", "almalinux"}
)


def is_busybox(image: str) -> bool:
    """Returns whether the tools of the image are those of busybox."""
    return "busybox" in image or "alpine" in image


def has_unknown_programs(image: str) -> bool:
    """Returns whether the image may have programs that the fake containers do not have."""
    name = image.split("@")[0].rpartition("/")[2].split(":")[0]
    return name not in _PLAIN

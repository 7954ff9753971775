"""Facts known of images, none of which is ever pulled."""

# Their programs are those of a distribution: what the fake containers lack, these lack too, as far as we go.
_PLAIN = frozenset(
    {"busybox", "alpine", "debian", "ubuntu", "bash", "centos", "fedora", "rockylinux", "almalinux"}
)


def is_busybox(image: str) -> bool:
    """Returns whether the tools of the image are those of busybox."""
    return "busybox" in image or "alpine" in image


def has_unknown_programs(image: str) -> bool:
    """Returns whether a program that the fake containers do not have may be in the image."""
    name = image.split("@")[0].rpartition("/")[2].split(":")[0]
    return name not in _PLAIN

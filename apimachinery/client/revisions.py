"""Remembers the newest revision that answers and watch events have named."""

from typing import Any


class SeenRevisions:
    """The resourceVersions that a client has seen; a server's revisions count all its writes."""

    def __init__(self) -> None:
        self.newest = 0

    def note(self, obj: Any) -> None:
        """Notes the resourceVersion of an object or a list, if it has one."""
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        text = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(text, str) and text.isdecimal():
            self.newest = max(self.newest, int(text))

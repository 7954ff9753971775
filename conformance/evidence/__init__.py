"""Evidence from the log of a cell: versions, pods' lives, and where it parted from another cell."""

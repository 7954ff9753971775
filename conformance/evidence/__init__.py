"""What the log says of a cell: versions, pods' lives, and where it parted from another cell."""

"""A small shell that runs inside fake containers, with its commands and the files they see. No processes."""

"""A small shell that runs inside fake containers, with its commands and their files, without processes."""

"""Defines the errors for the user of the command line, each with what to do next."""


class UserError(Exception):
    """Wrong usage: shown as one line, exit status 2."""


class ClusterError(Exception):
    """A run that failed: shown as one line, exit status 1."""


class EndedEarlyError(ClusterError):
    """A run that could not go on, as if it had been interrupted: shown as one line, exit status 130."""

"""The errors that a user can cause or meet, and the exit status each one has at the command line."""


class ToolkitError(Exception):
    """Wrong usage or input: exit status 2.

    The message is one line. It names the argument or file and line, the bad value, what is allowed,
    and what to do.
    """

    exit_status = 2


class DataFault(ToolkitError):
    """A fault found in stored data, or a result that is only partial: exit status 1."""

    exit_status = 1

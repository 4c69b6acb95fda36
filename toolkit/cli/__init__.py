"""The command line, outermost: each module parses, calls one library function, and prints.

A module for a verb has `add_arguments(parser)` and `run(args) -> int`, the exit status. It imports what
is slow (MLX, pandas, matplotlib) inside `run`, so that `--help` is quick.
"""

"""What the numbered analyses share: their command line, their runs, intervals, drawings and reports."""

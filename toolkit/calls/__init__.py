"""What generates and scores from Python, in memory: prompts in, sequences, segments and arrays out.

Stands beside `toolkit.collect` and drives the same generators; writes no files.
"""

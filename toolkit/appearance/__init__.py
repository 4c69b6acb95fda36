"""What confidence looks like: one palette, and one fixed scale for each statistic.

Numbers and colours only. The terminal, the plots and the report all take theirs from here.
"""

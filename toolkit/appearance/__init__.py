"""What people see, wherever they look: one palette, one fixed scale for each statistic, what a prompt asks.

Numbers and colours only. The terminal, the plots and the report all take theirs from here.
"""

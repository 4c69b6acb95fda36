"""What people look at: text coloured by confidence, in the terminal and in reports.

Reads plain texts and numbers; knows nothing of models, and imports no MLX.
"""

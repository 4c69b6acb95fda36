"""Token ids in, token ids and per-token statistics out; knows nothing of text or files.

Modules of this package import MLX, and a fast BLAS has to be there first: so it is loaded here, before any of
them is.
"""

from toolkit.models import blas

blas.preload()

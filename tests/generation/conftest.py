"""The two implementations of the kernels: compiled, and NumPy's where Numba is not installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolkit.generation import kernels, row_attention


@pytest.fixture(scope="module", params=["compiled", "numpy"])
def implementation(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test with each of them."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (kernels, row_attention):
            patch.setattr(module, "can_compile", lambda: request.param == "compiled")
        yield request.param

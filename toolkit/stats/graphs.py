"""Estimators over the similarity of the samples, seen as the weights of a graph.

A similarity matrix is (K, K) for K samples: Jaccard's, ROUGE's, or what an entailment or embedding model
says. The mean of both directions is taken. NaN for fewer than two samples or a matrix with a NaN in it.
"""

from __future__ import annotations

from math import inf, log, nan
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from toolkit.errors import ToolkitError
from toolkit.stats.ranges import Floats
from toolkit.stats.registry import register
from toolkit.stats.similarity import nonnegative

LIN = "Lin 2023, arXiv 2305.19187"


def computable(matrix: Floats) -> bool:
    """Whether there are two samples or more, and a value for each pair."""
    return len(matrix) > 1 and bool(np.isfinite(matrix).all())


@register(
    "similarity_degree",
    level="samples",
    inputs=("similarity",),
    higher_is_confident=False,
    range=(0, 1),
    source=LIN,
)
def similarity_degree(similarity: ArrayLike) -> float:
    """1 − mean of a similarity matrix in [0, 1], its diagonal included.

    In [0, 1]; lower is more confident. Source: Lin et al. 2023, arXiv 2305.19187; LM-Polygraph's DegMat.

    Parameters
    ----------
    similarity : (K, K)
    """
    matrix = nonnegative(similarity)
    return float(1 - matrix.mean()) if computable(matrix) else nan


def _laplacian(matrix: Floats) -> Floats | None:
    """The normalised Laplacian I − D^-½ W D^-½; None where it cannot be had."""
    degree = matrix.sum(axis=1)
    if not computable(matrix) or (degree <= 0).any():
        return None
    scale = 1 / np.sqrt(degree)
    return np.eye(len(matrix)) - scale[:, None] * matrix * scale


@register(
    "similarity_eigenvalue",
    level="samples",
    inputs=("similarity",),
    higher_is_confident=False,
    range=(0, inf),
    source=LIN,
)
def similarity_eigenvalue(similarity: ArrayLike) -> float:
    """Σ max(0, 1 − λ) over the eigenvalues λ of the normalised Laplacian: a soft number of meanings.

    In [1, K] where the diagonal is 1; lower is more confident. NaN where a row has no similarity at all.
    Source: Lin et al. 2023, arXiv 2305.19187; LM-Polygraph's EigValLaplacian.

    Parameters
    ----------
    similarity : (K, K), at least 0
    """
    laplacian = _laplacian(nonnegative(similarity))
    return nan if laplacian is None else float(np.maximum(0, 1 - np.linalg.eigvalsh(laplacian)).sum())


@register(
    "similarity_eccentricity",
    level="samples",
    inputs=("similarity",),
    higher_is_confident=False,
    range=(0, inf),
    source=LIN,
)
def similarity_eccentricity(similarity: ArrayLike, *, cutoff: float = 0.9) -> float:
    """Frobenius norm of the mean-centred eigenvectors of the normalised Laplacian with λ < cutoff.

    In [0, √K); lower is more confident. NaN where a row has no similarity at all. Source: Lin et al. 2023,
    arXiv 2305.19187; LM-Polygraph's Eccentricity. Each eigenvector is centred by its own mean, so the value
    does not depend on the basis chosen for equal eigenvalues.

    Parameters
    ----------
    similarity : (K, K), at least 0
    cutoff : eigenvalues below it count
    """
    laplacian = _laplacian(nonnegative(similarity))
    if laplacian is None:
        return nan
    values, vectors = np.linalg.eigh(laplacian)
    kept = vectors[:, values < cutoff]
    return float(np.linalg.norm(kept - kept.mean(axis=0)))


@register(
    "jaccard_degree",
    level="samples",
    inputs=("jaccard",),
    higher_is_confident=False,
    range=(0, 1),
    source=LIN,
)
def jaccard_degree(jaccard: ArrayLike) -> float:
    """1 − mean of the Jaccard matrix, its diagonal included; see `similarity_degree`.

    In [0, 1]; lower is more confident. Source: Lin et al. 2023, arXiv 2305.19187.

    Parameters
    ----------
    jaccard : (K, K) from `jaccard_matrix`
    """
    return similarity_degree(jaccard)


@register(
    "jaccard_eigenvalue",
    level="samples",
    inputs=("jaccard",),
    higher_is_confident=False,
    range=(1, inf),
    source=LIN,
)
def jaccard_eigenvalue(jaccard: ArrayLike) -> float:
    """Σ max(0, 1 − λ) of the Jaccard matrix's normalised Laplacian; see `similarity_eigenvalue`.

    In [1, K]; lower is more confident. Source: Lin et al. 2023, arXiv 2305.19187.

    Parameters
    ----------
    jaccard : (K, K) from `jaccard_matrix`
    """
    return similarity_eigenvalue(jaccard)


@register(
    "jaccard_eccentricity",
    level="samples",
    inputs=("jaccard",),
    higher_is_confident=False,
    range=(0, inf),
    source=LIN,
)
def jaccard_eccentricity(jaccard: ArrayLike, *, cutoff: float = 0.9) -> float:
    """Norm of the centred eigenvectors of the Jaccard matrix's Laplacian; see `similarity_eccentricity`.

    In [0, √K); lower is more confident. Source: Lin et al. 2023, arXiv 2305.19187.

    Parameters
    ----------
    jaccard : (K, K) from `jaccard_matrix`
    cutoff : eigenvalues below it count
    """
    return similarity_eccentricity(jaccard, cutoff=cutoff)


@register(
    "kernel_language_entropy",
    level="samples",
    inputs=("similarity",),
    higher_is_confident=False,
    range=(0, inf),
    source="Nikitin 2024, arXiv 2405.20003",
)
def kernel_language_entropy(
    similarity: ArrayLike,
    *,
    kernel: Literal["heat", "matern"] = "heat",
    t: float = 0.3,
    nu: float = 1.0,
    kappa: float = 1.0,
    scaled: bool = False,
) -> float:
    """Von Neumann entropy −Tr(K ln K) of a kernel over the graph whose weights are the similarities.

    With L = D − W: the heat kernel exp(−tL), or Matérn's (2ν/κ² I + L)^−ν; divided by √(K_ii K_jj) and by the
    number of samples, so that its trace is 1. Nats in [0, ln K], or in [0, 1] where `scaled`; lower is more
    confident. Source: Nikitin et al. 2024, arXiv 2405.20003. Their code sums the two directions of a weight,
    where the mean is taken here, which is half the t; its default t is 0.4 and it is scaled. LM-Polygraph has
    W − D in place of D − W.

    Parameters
    ----------
    similarity : (K, K), at least 0, such as P(entailment) + ½ P(neutral)
    kernel : "heat" or "matern"
    t : time of the heat kernel, above 0
    nu, kappa : of Matérn's kernel, above 0
    scaled : whether to divide by ln K
    """
    if kernel not in ("heat", "matern"):
        raise ToolkitError(f"kernel={kernel!r}: it must be heat or matern")
    if min(t, nu, kappa) <= 0:
        raise ToolkitError(f"t={t}, nu={nu}, kappa={kappa}: all must be above 0")
    weights = nonnegative(similarity)
    if not computable(weights):
        return nan
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)
    values = np.maximum(values, 0)  # rounding can push the smallest, 0, below
    spectrum = np.exp(-t * values) if kernel == "heat" else (2 * nu / kappa**2 + values) ** -nu
    matrix = (vectors * spectrum) @ vectors.T
    scale = np.sqrt(np.diag(matrix))
    eigenvalues = np.linalg.eigvalsh(matrix / np.outer(scale, scale) / len(matrix))
    entropy = float(entr(np.maximum(eigenvalues, 0)).sum())
    return entropy / log(len(matrix)) if scaled else entropy

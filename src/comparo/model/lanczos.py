"""Traces of functions of a matrix by stochastic Lanczos quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh_tridiagonal

from comparo.types import Array

NEGLIGIBLE = 1e-4  # product of the ratios β/α, which bounds what further steps would add, relative


def quadrature(multiply: Callable[[Array], Array], probes: Array, steps: int) -> tuple[Array, Array]:
    """Eigenvalues q and weights, both (steps·P,), such that Σ weight·f(q) estimates tr f(L) for smooth f.

    Fewer steps are made where the eigenvalues are so close to each other that further ones would add nothing.

    `multiply` is L on columns, and `probes` (n, P) are random signs, in the space in which the trace is taken.

    >>> matrix = np.diag([1.0, 2.0, 3.0])
    >>> q, weight = quadrature(lambda x: matrix @ x, np.ones((3, 1)), 3)
    >>> round(float(np.sum(weight * q**2)), 6)
    14.0
    """
    squares, left = np.sum(probes**2, axis=0), 1.0
    z, previous = probes / np.sqrt(squares), np.zeros_like(probes)
    alpha, beta = np.zeros((2, steps, probes.shape[1]))
    for step in range(steps):
        image = multiply(z)
        alpha[step] = np.sum(z * image, axis=0)
        image = image - alpha[step] * z - (beta[step - 1] * previous if step else 0.0)
        beta[step] = np.linalg.norm(image, axis=0)
        previous, z = z, image / np.maximum(beta[step], np.finfo(float).tiny)
        left *= float(np.max(beta[step] / np.maximum(alpha[step], np.finfo(float).tiny)))
        if left < NEGLIGIBLE:
            break
    steps, nodes, weights = step + 1, [], []
    for column, square in enumerate(squares):
        values, vectors = eigh_tridiagonal(alpha[:steps, column], beta[: steps - 1, column])
        nodes.append(np.maximum(values, 0.0))
        weights.append(vectors[0] ** 2 * square / len(squares))
    return np.concatenate(nodes), np.concatenate(weights)

"""Vectors on a plane: PCA with numpy, or t-SNE with scikit-learn.

Rows come in at unit length, because cosine is what neighbours are told by. The same rows give the same places, signs
included. Knows nothing of tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.vectors.choices import Method
from sgns_cli.vectors.neighbors import units

FEWEST_FOR_TSNE = 4
SLOW_FOR_TSNE = 3000  # points from which t-SNE is worth a word beforehand: these took 20 s of a core, 5000 took 45 s
ROWS_AT_ONCE = 2**14
NOTHING = 1e-10  # the share of the variance below which an axis is rounding of float32


@dataclass(frozen=True)
class Layout:
    """Where points lie. `shares`: of the variance, on each of the two axes; None for t-SNE, whose axes mean nothing."""

    places: NDArray[np.float64]  # [points, 2]
    shares: tuple[float, float] | None = None


def lay_out(vectors: NDArray[np.float32], method: Method) -> Layout:
    """Places for `vectors` [points, dim], compared by direction alone. Raises SgnsError if t-SNE has too few points."""
    rows = units(vectors)
    return pca(rows) if method == "pca" else tsne(rows)


def pca(rows: NDArray[np.float32]) -> Layout:
    """The two directions of the highest variance of `rows` [points, dim]; the largest entry of each is positive."""
    mean = rows.mean(axis=0, dtype=np.float64)
    points, dim = rows.shape
    if points > dim:
        products = np.zeros((dim, dim))
        for part in _parts(rows):
            products += (part - mean).T @ (part - mean)
        values, vectors = np.linalg.eigh(products)
        values, axes = np.maximum(values[::-1], 0), vectors.T[::-1]
    else:
        _, singular, axes = np.linalg.svd(rows - mean, full_matrices=False)
        values = singular**2
    axes = axes[:2]
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    total = float(values.sum())
    spread = total > NOTHING * points  # rows have length 1
    shares = np.where(values[:2] > NOTHING * total, values[:2] / total, 0) if spread else np.zeros(len(axes))
    places = np.concatenate([(part - mean) @ axes.T for part in _parts(rows)])
    places[:, shares == 0] = 0
    missing = 2 - places.shape[1]  # of one point, or of vectors of one number
    first, second = [*shares.tolist(), 0.0, 0.0][:2]
    return Layout(np.pad(places, ((0, 0), (0, missing))), (first, second))


def tsne(rows: NDArray[np.float32]) -> Layout:
    """t-SNE of `rows` [points, dim] from their PCA, with a fixed seed and on one thread, so that it repeats."""
    require_sklearn()
    from sklearn.manifold import TSNE  # type: ignore[import-untyped]
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if len(rows) < FEWEST_FOR_TSNE:
        raise SgnsError(
            f"t-SNE needs {FEWEST_FOR_TSNE} points or more, and here are {len(rows)}",
            "add tokens, --top N or a larger -k, or use --method pca",
        )
    start = pca(rows).places
    spread = start[:, 0].std()
    if spread == 0:
        return Layout(start)  # all points are one: there is nothing to tell apart
    perplexity = min(30.0, (len(rows) - 1) / 3)
    method = TSNE(init=(start / spread * 1e-4).astype(np.float32), perplexity=perplexity, random_state=0)
    with threadpool_limits(limits=1):
        places = np.asarray(method.fit_transform(rows), dtype=np.float32)
    return Layout(pca(places).places)  # turned so that it is wider than high


def require_sklearn() -> None:
    """Raises SgnsError if scikit-learn is not installed."""
    try:
        import sklearn  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise SgnsError("t-SNE needs scikit-learn", "pip install 'sgns-cli[plot]', or use --method pca") from error


def _parts(rows: NDArray[np.float32]) -> Iterator[NDArray[np.float64]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE].astype(np.float64)

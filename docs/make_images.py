"""Draw the pictures of the README and refresh printed output: ``python docs/make_images.py``."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from cavity import SeriesMixture, StudentTMixture
from cavity.datasets import add_outliers, make_series, make_student_t

IMAGES = Path(__file__).parent / "images"


def outliers() -> None:
    """Cluster the same table, 7% of it outliers, with four methods, and show cavity's certainty."""
    clean, truth = make_student_t(300, 4, 2, df=4, separation=10, random_state=3)
    X, _ = add_outliers(clean, fraction=0.08, random_state=0)
    scaled = StandardScaler().fit_transform(X)
    m = StudentTMixture(n_clusters=10, random_state=0).fit(X)
    answers = {
        "k-means, 4 clusters given": KMeans(4, n_init=10, random_state=0).fit_predict(scaled),
        "GaussianMixture, 4 components given": GaussianMixture(
            4, n_init=10, random_state=0
        ).fit_predict(scaled),
        "HDBSCAN": HDBSCAN(min_cluster_size=10, copy=True).fit_predict(scaled),
        "cavity, at most 10 clusters": m.labels_,
    }
    palette = np.array(["#0072b2", "#e69f00", "#009e73", "#cc79a7", "0.65"])
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained")
    for ax, (name, labels) in zip(axes.flat, answers.items(), strict=False):
        ax.scatter(*X.T, c=palette[matched(labels, truth.labels)], s=12)
        score = adjusted_rand_score(truth.labels, labels[: len(clean)])
        ax.set_title(f"{name}\nadjusted Rand index {score:.2f}", loc="left", fontsize=11)
    certainty = m.posterior_.observations()["certainty"]
    points = axes[1, 1].scatter(*X.T, c=certainty, cmap="viridis", s=12, vmin=0, vmax=1)
    axes[1, 1].set_title("cavity: certainty of each row\n", loc="left", fontsize=11)
    inset = axes[1, 1].inset_axes([0.2, 0.13, 0.38, 0.05])
    figure.colorbar(points, cax=inset, orientation="horizontal")
    for ax in axes.flat[:5]:
        ax.set(xticks=[], yticks=[])
    number = m.posterior_.n_clusters_posterior().reindex(range(1, 9), fill_value=0)
    axes[1, 2].bar(number.index, number, color="#0072b2", width=0.6)
    axes[1, 2].set(xlabel="number of clusters", xticks=number.index, ylim=(0, 1))
    axes[1, 2].set_title("cavity: probability of each number\n", loc="left", fontsize=11)
    axes[1, 2].spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "outliers.png", dpi=110)


def matched(labels: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Rename clusters to the true ones that they share the most rows with; noise becomes 4."""
    found = labels[: len(truth)]
    names = range(labels.max() + 1)
    shared = [[np.sum((found == k) & (truth == j)) for j in range(4)] for k in names]
    renamed = np.full(len(labels), 4)
    for k, j in zip(*linear_sum_assignment(shared, maximize=True), strict=True):
        renamed[labels == k] = j
    return renamed


def series() -> None:
    """Sixty noisy series with gaps, by the factor that they share."""
    Y, _ = make_series(60, 72, n_clusters=4, var_y=0.5, missing=0.3, random_state=0)
    s = SeriesMixture(6, random_state=1).fit(Y)
    s.plot_clusters(standardised=False)[0].figure.savefig(IMAGES / "series.png", dpi=90)


ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OUTPUT = "<!-- example: output -->\n```text\n"
EXAMPLE = re.compile(rf"```python\n(.*?)```(?:(\n\n{OUTPUT})(.*?)```)?", re.DOTALL)


def example_output(text: str) -> list[str]:
    """Run the examples of a page in one namespace and return what each block prints."""
    names: dict[str, object] = {}
    outputs = []
    for found in EXAMPLE.finditer(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(found.group(1), "example", "exec"), names)
        outputs.append("".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines()))
    return outputs


def refresh(page: Path) -> None:
    """Replace the output that a page shows by what its examples print now."""
    text = page.read_text(encoding="utf-8")
    if OUTPUT not in text:
        return
    with contextlib.chdir(tempfile.mkdtemp()):
        outputs = iter(example_output(text))

    def put(found: re.Match[str]) -> str:
        output = next(outputs)
        if found.group(2) is None:
            return found.group(0)
        return f"```python\n{found.group(1)}```{found.group(2)}{output}```"

    page.write_text(EXAMPLE.sub(put, text), encoding="utf-8")


if __name__ == "__main__":
    for path in PAGES:
        refresh(path)
    IMAGES.mkdir(exist_ok=True)
    outliers()
    series()

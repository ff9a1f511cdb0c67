"""Draw the README's pictures and run its example: ``python docs/make_images.py``."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as PlainMixture

from cavity import SeriesMixture, StudentTMixture
from cavity.cli.series import draw_clusters
from cavity.datasets import add_outliers, make_series, make_student_t
from cavity.report import style

IMAGES = Path(__file__).parent / "images"


def outliers() -> None:
    """Four clusters and 8% uniform outliers: maximum likelihood, and this package."""
    clean, truth = make_student_t(300, 4, 2, df=4, separation=10, random_state=3)
    X, is_outlier = add_outliers(clean, fraction=0.08, random_state=0)
    plain = PlainMixture(4, n_init=10, random_state=0).fit_predict(X)
    robust = StudentTMixture(4, random_state=0).fit(X)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharex=True, sharey=True)
    for k in np.unique(plain):
        own = plain == k
        axes[0].scatter(*X[own].T, s=14, color=style.cluster_colour(int(k)))
    robust.posterior_.plot_clusters(X, feature_names=["", ""], ax=axes[1])
    axes[1].set_title("", loc="left")
    for ax, labels, name in (
        (axes[0], plain, "Gaussian mixture by EM"),
        (axes[1], robust.labels_, "cavity.StudentTMixture"),
    ):
        score = adjusted_rand_score(truth.labels, labels[~is_outlier])
        ax.set_title(f"{name}: adjusted Rand index {score:.2f}", fontsize=11)
        ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
    figure.tight_layout()
    figure.savefig(IMAGES / "outliers.png", dpi=110)
    robust.posterior_.plot_similarity().figure.savefig(IMAGES / "similarity.png", dpi=90)


def series() -> None:
    """Sixty noisy series with gaps, by the factor that they share."""
    Y, _ = make_series(60, 72, n_clusters=4, var_y=0.5, missing=0.3, random_state=0)
    s = SeriesMixture(6, random_state=1).fit(Y)
    figure = draw_clusters(s.trends_.mean, s.labels_, "time", "trend")
    figure.savefig(IMAGES / "series.png", dpi=90)


README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(
    r"(<!-- example: code -->\n```python\n(.*?)```.*?<!-- example: output -->\n```text\n).*?(```)",
    re.DOTALL,
)


def example_output(readme: str) -> str:
    """Run the README's example and return what it prints."""
    found = EXAMPLE.search(readme)
    if found is None:
        raise ValueError("README.md has no example between its marks.")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(found.group(2), "README.md", "exec"), {})
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()) + "\n"


def example() -> None:
    """Put what the README's example prints below it."""
    readme = README.read_text(encoding="utf-8")
    output = example_output(readme)
    readme = EXAMPLE.sub(lambda m: m.group(1) + output + m.group(3), readme)
    README.write_text(readme, encoding="utf-8")


if __name__ == "__main__":
    example()
    IMAGES.mkdir(exist_ok=True)
    outliers()
    series()

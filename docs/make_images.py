"""Draw the README's pictures and run its example: ``python docs/make_images.py``."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from cavity import SeriesMixture, StudentTMixture
from cavity.cli.models import draw_clusters
from cavity.datasets import add_outliers, make_series, make_student_t

IMAGES = Path(__file__).parent / "images"


def outliers() -> None:
    """Four clusters and 8% uniform outliers: the rows, and which of them belong together."""
    clean, _ = make_student_t(300, 4, 2, df=4, separation=10, random_state=3)
    X, _ = add_outliers(clean, fraction=0.08, random_state=0)
    posterior = StudentTMixture(n_clusters=4, random_state=0).fit(X).posterior_
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    posterior.plot_clusters(X, feature_names=["first", "second"], ax=axes[0])
    posterior.plot_similarity(ax=axes[1])
    figure.savefig(IMAGES / "outliers.png", dpi=110)


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

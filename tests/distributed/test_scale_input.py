"""What is refused before any work, in one sentence; what needs Dask and says so."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask_cases import fit, rows, write_rows

from cavity import GaussianMixture, StudentTMixture
from cavity.posterior.record import ROWS_BEHIND_WEIGHTS


@pytest.fixture
def folder(tmp_path):
    return write_rows(tmp_path, rows(300))


def refused(where, match, **settings):
    with pytest.raises(ValueError, match=match) as caught:
        fit(where, **settings)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")


def test_files_that_do_not_fit_together(folder):
    pq.write_table(pa.table({"a": [1.0], "c": [2.0]}), folder / "part-9.parquet")
    refused(folder, r"part-9\.parquet has no column 'b'")
    pq.write_table(pa.table({"a": [1.0], "b": ["x"]}), folder / "part-9.parquet")
    refused(folder, r"Column 'b' of .*part-9\.parquet holds string, not numbers")
    (folder / "part-9.parquet").write_text("no Parquet")
    refused(folder, r"part-9\.parquet is no Parquet file")


def test_values_that_are_none(folder):
    pq.write_table(pa.table({"a": [1.0, None], "b": [2.0, 3.0]}), folder / "part-9.parquet")
    refused(folder, r"Row 1, column 'a' of .*part-9\.parquet is missing")
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [2.0, np.inf]}), folder / "part-9.parquet")
    refused(folder, r"Row 1, column 'b' of .*part-9\.parquet is infinite")


def test_places_without_files(tmp_path):
    refused(tmp_path, "holds no Parquet files")
    refused(str(tmp_path / "*.parquet"), "No file matches")


def test_settings_that_cannot_be_spread(folder):
    refused(folder, "not supported for sharded data", collapse="naive")
    refused(folder, "collapse='ep' is not supported.* Use collapse='parallel'", collapse="ep")
    refused(folder, "'dirichlet', 'fixed' or 'dp'", prior="pitman-yor")
    refused(folder, "for rows in shards", init=np.zeros(300, dtype=int))
    refused(folder, "fewer than n_clusters", n_clusters=301)
    with pytest.raises(ValueError, match=r"must be a distributed\.Client, not str"):
        fit(folder, client="tcp://host:8786")
    with pytest.raises(ValueError, match="columns selects columns of a path"):
        StudentTMixture(2).fit(rows(20), columns=["a"])


def test_columns_are_chosen(folder):
    m = GaussianMixture(2, n_chains=1, n_warmup=5, n_draws=20, random_state=0)
    m.fit(folder, columns=["b"])
    assert m.feature_names_in_.tolist() == ["b"]
    assert m.means_.shape[1] == 1


@pytest.mark.usefixtures("without_pictures")
def test_an_answer_from_files(folder, tmp_path):
    """Labels, saving, the report, and probabilities that agree with `membership`."""
    m = fit(folder, n_draws=30, n_chains=2)
    X = pd.read_parquet(folder)
    assert m.posterior_.n_observations == 300
    assert m.posterior_.record.details[ROWS_BEHIND_WEIGHTS] == 300
    again = StudentTMixture.load(m.save(tmp_path / "m.nc"))
    assert np.array_equal(again.labels_, m.labels_)
    assert m.report(tmp_path / "page.html").stat().st_size > 10_000
    files = again.predict_to_parquet(folder, tmp_path / "placed", n_draws=200)
    assert [path.name for path in files] == [f"part-{i}.parquet" for i in range(3)]
    placed = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
    table = m.predict_proba(X, as_frame=True)
    for name in ("cluster", "probability", "log_density", "p_0", "p_unmatched"):
        assert placed[name].to_numpy() == pytest.approx(table[name].to_numpy(), abs=1e-6)
    with pytest.raises(ValueError, match="Leave-one-out needs the labels of all rows"):
        m.loo(X)


@pytest.mark.slow
def test_dask_is_not_imported_unasked():
    code = (
        "import sys, cavity; from cavity import StudentTMixture; import numpy as np\n"
        "m = StudentTMixture(2, collapse='parallel', n_chains=1, n_warmup=2, n_draws=5, "
        "random_state=0, n_jobs=1).fit(np.random.default_rng(0).normal(size=(20, 1)))\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('dask', 'distributed')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_dask_the_remedy_is_named(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'cavity\[dask\]'"):
        fit(folder, client=object())

"""Install a wheel into an empty environment and try it.

``python .ci/try_wheel.py dist`` makes a virtual environment with the Python that runs it, installs
the best matching wheel, and runs the demo, a fit, and a file written and read back. A wheel with
kernels (see ``.ci/kernels.py``) must do this without compiling any.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

SMOKE = """
import pathlib, numpy as np, cavity
from cavity.datasets import make_student_t
assert "site-packages" in cavity.__file__, cavity.__file__
X, truth = make_student_t(120, 3, 2, df=4, separation=20, random_state=1)
m = cavity.StudentTMixture(n_clusters=6, random_state=0).fit(X)
assert m.n_clusters_ == 3, m.n_clusters_
again = cavity.load(m.save("fit.nc"))
assert np.array_equal(again.predict(X), m.predict(X))
m.report("page.html", X)
assert "3 clusters" in pathlib.Path("page.html").read_text(encoding="utf-8")
print(cavity.__version__, m.diagnostics().sentences[0])
"""


def best_wheel(python: str, dist: Path) -> Path:
    """Return the wheel of a folder that pip would choose for a Python."""
    asked = [python, "-m", "pip", "install", "-q", "--dry-run", "--no-deps", "--no-index"]
    output = subprocess.run(
        [*asked, "--find-links", str(dist), "--report", "-", "cavity"],
        check=True,
        capture_output=True,
        text=True,
    )
    (found,) = json.loads(output.stdout)["install"]
    return Path(url2pathname(urlparse(found["download_info"]["url"]).path))


def main(dist: Path) -> None:
    """Try the wheel in `dist`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        bin_ = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        python = str(bin_ / "python")

        kept = folder / "cache"
        environment = {**os.environ, "CAVITY_CACHE_DIR": str(kept)}

        def run(*command: str) -> None:
            print("$", *(c if "\n" not in c else "..." for c in command), flush=True)
            subprocess.run(command, check=True, cwd=folder, env=environment)

        wheel = best_wheel(python, dist)

        run(python, "-m", "pip", "install", "-q", str(wheel.resolve()))
        run(python, "-m", "pip", "check")
        run(str(bin_ / "cavity"), "--version")
        run(str(bin_ / "cavity"), "demo", "--out", "demo")
        assert (folder / "demo" / "report.html").stat().st_size > 10_000
        run(python, "-c", SMOKE)
        compiled = sorted(path.name for path in kept.rglob("*.nbi"))
        assert wheel.name.endswith("-none-any.whl") or not compiled, compiled
    print(f"{wheel.name} works on Python {sys.version.split()[0]}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

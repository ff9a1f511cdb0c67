"""Settings of the site; ``python docs/build.py`` builds it."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext")]

from sphinx_gallery.sorting import FileNameSortKey  # noqa: E402

import cavity  # noqa: E402

project = "cavity"
author = "cavity developers"
copyright = "2026, cavity developers"
version = release = cavity.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["README.md", "**/*.md5", "_templates"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the settings of the gallery hold a function

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "substitution"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# All resources are local: the site can be read without a network.
html_theme = "pydata_sphinx_theme"
html_title = "cavity"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}


def quiet(gallery_conf: dict, script: str) -> None:
    """Reset figures and silence advice about chains and columns before each script."""
    import matplotlib.pyplot as plt

    plt.close("all")
    for kind in (cavity.NotConvergedWarning, cavity.ColumnsNote):
        warnings.simplefilter("ignore", kind)


sphinx_gallery_conf = {
    "examples_dirs": ["../examples/learn", "../examples/gallery"],
    "gallery_dirs": ["learn", "gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": FileNameSortKey,
    "reset_modules": ("matplotlib", quiet),
    "abort_on_example_error": False,
    "doc_module": ("cavity",),
    "backreferences_dir": "api/backreferences",
    "reference_url": {"cavity": None},
    "inspect_global_variables": True,
    "capture_repr": (),  # what is printed, not what a last line happens to return
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "plot_gallery": "True",
    "nested_sections": False,
    "write_computation_times": False,
}


def bring_report(app, problem) -> None:
    """Copy the report that a lesson writes next to its page."""
    made = HERE.parent / "examples" / "learn" / "report.html"
    if problem is None and made.exists():
        shutil.copy(made, Path(app.outdir) / "learn")


def skip(app, what, name, obj, skipped, options) -> bool | None:
    """Skip scikit-learn's metadata routing methods."""
    routing = name.startswith("set_") and name.endswith("_request")
    return True if routing or name == "get_metadata_routing" else None


def setup(app) -> None:
    """Connect to the build."""
    app.connect("autodoc-skip-member", skip)
    app.connect("build-finished", bring_report)

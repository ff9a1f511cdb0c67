"""Build hook: add kernels that were compiled ahead of time to the wheel.

``CAVITY_KERNELS`` is the folder that ``.ci/kernels.py`` made. The wheel is then specific to this
Python and this system. Without it, as in any ``pip install`` from source, the wheel is universal.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):
    """Adds kernels to the package."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder of kernels and set the tag of the wheel."""
        folder = os.environ.get("CAVITY_KERNELS")
        if not folder or version == "editable":
            return
        # Compiled code looks up C functions by name through Numba, so the wheel runs wherever
        # Numba's own wheel does (glibc 2.27).
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        if system.startswith("linux_"):
            system = f"manylinux_2_27_{system.removeprefix('linux_')}"
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{system}"
        build_data["force_include"][os.path.abspath(folder)] = "cavity/kernels"

"""What is special about building a wheel: kernels compiled ahead, if there are any.

``CAVITY_KERNELS`` is the folder that ``.ci/kernels.py`` made; the wheel is then for this Python
and this system alone. Without it, as in any ``pip install`` from the sources, the wheel is for all.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):
    """Puts kernels beside the package's modules."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add to what goes into the wheel."""
        folder = os.environ.get("CAVITY_KERNELS")
        if not folder or version == "editable":
            return
        # Compiled code takes its functions of C's library by name, through Numba's: the wheel runs
        # wherever Numba's own does, whose Linux is that of 2018.
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        if system.startswith("linux_"):
            system = f"manylinux_2_27_{system.removeprefix('linux_')}"
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{system}"
        build_data["force_include"][os.path.abspath(folder)] = "cavity/kernels"

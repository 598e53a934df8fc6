"""Compile the kernels while a wheel or an editable install is built. Where that fails, the package is pure Python.

The extension is built against the stable ABI of Python 3.11, for every processor of the platform and, once more, for
AVX2 and FMA. ``LIM2_BUILD=pure`` builds none; with ``LIM2_BUILD=native`` a failure is an error.
"""

import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("lim2", "_kernels")
X86 = ("x86_64", "AMD64")
# Sums may be reordered, so that loops run on vectors. Infinities and NaN keep their meaning.
REORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno")
FLAGS = ("/O2", "/std:c11") if sys.platform == "win32" else ("-O3", "-g0", "-std=c11", *REORDER)
AVX2 = ("/arch:AVX2",) if sys.platform == "win32" else ("-mavx2", "-mfma")


class CompileKernels(BuildHookInterface[Any]):
    """Adds the compiled kernels to a wheel, or to the folder of an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, and name the platform in the wheel's tag."""
        wanted = os.environ.get("LIM2_BUILD", "")
        sources = Path(self.root, "src", PACKAGE)
        self.folder = tempfile.mkdtemp()
        extensions: list[Path] = []
        if wanted != "pure":
            try:
                extensions = compiled(sources, Path(self.folder))
            except (Exception, SystemExit) as error:  # no compiler, no headers: there are as many errors as platforms
                if wanted == "native":
                    raise
                self.app.display_warning(f"lim2 is built without compiled kernels, and will use NumPy: {error}")
        if version == "editable":
            install(extensions, sources)
        elif extensions:
            build_data["force_include"].update({str(file): str(PACKAGE / file.name) for file in extensions})
        if extensions:
            build_data["pure_python"] = False
            build_data["tag"] = "cp311-abi3-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled: the wheel has it."""
        shutil.rmtree(self.folder, ignore_errors=True)


def compiled(sources: Path, folder: Path) -> list[Path]:
    """Return the extensions, compiled into a folder."""
    import numpy as np
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    headers = Path(np.get_include())
    variants = {"baseline": (), "avx2": AVX2} if platform.machine() in X86 else {"baseline": ()}
    extensions = [
        Extension(
            name,
            [str(sources / "extension.c")],
            include_dirs=[str(headers)],
            define_macros=[("MODULE", name)],
            extra_compile_args=[*FLAGS, *flags],
            library_dirs=[str(headers.parents[1] / "random" / "lib")],
            libraries=["npyrandom"] if sys.platform == "win32" else ["npyrandom", "m"],
            py_limited_api=True,
        )
        for name, flags in variants.items()
    ]
    paths: list[Path] = []
    for extension in extensions:
        command = build_ext(Distribution({"ext_modules": [extension]}))
        command.build_lib, command.build_temp = str(folder), str(folder / extension.name)
        command.ensure_finalized()
        command.run()
        paths += map(Path, command.get_outputs())
    return paths


def install(extensions: list[Path], folder: Path) -> None:
    """Put extensions into a folder in place of all others, each at once: a process may be using the old one."""
    for old in (*folder.glob("*.so"), *folder.glob("*.pyd")):
        if old.name not in {file.name for file in extensions}:
            old.unlink()
    for file in extensions:
        beside = folder / f"{file.name}.new"
        shutil.copyfile(file, beside)
        beside.replace(folder / file.name)

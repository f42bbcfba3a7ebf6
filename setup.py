"""Builds the Cython extensions; everything else about the package is in pyproject.toml."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

extensions = [
    Extension(f"pycudnn.{source.stem}", [source.as_posix()], extra_compile_args=["-O2"])
    for source in sorted(Path("pycudnn").glob("*.pyx"))
]

setup(ext_modules=cythonize(extensions, language_level=3))

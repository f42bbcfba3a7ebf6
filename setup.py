"""Builds the two Cython extensions; everything else about the package is in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, setup

extensions = [
    Extension(f"pycudnn.{name}", [f"pycudnn/{name}.pyx"], extra_compile_args=["-O2"])
    for name in ("_core", "_core_blas")
]

setup(ext_modules=cythonize(extensions, language_level=3))

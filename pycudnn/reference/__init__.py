"""The reference library: cuDNN and cuBLAS functions in NumPy, behind their C signatures.

It is a table of C function addresses, as the real libraries are, so all that stands on such a
table runs on it unchanged, on any computer. It serves three ends: to run without a GPU, to be the
oracle that the real libraries are compared with, and to be read: each function says what cuDNN
computes.

It is
    complete in what it has: data types, layouts and free strides, alpha and beta, NaN
    propagation, argument checks with cuDNN's status codes, error texts per thread;
    exact where it can be: float16 and bfloat16 are stored as such and computed in float32;
    deterministic: the same call on the same data gives the same bits;
    safe against wrong handles and descriptors, which give a status and never a crash.
It is not
    a GPU emulator: memory is the host's, calls are synchronous, a stream is a number that the
    handle remembers, and graphs cannot be captured;
    a stand-in for what is missing: a function that is not here has no address;
    bit for bit equal to the real libraries, whose order of summation differs.

Addresses of memory are trusted, as in C. The modules follow the headers: ``cudnn_graph``,
``cudnn_ops``, ``cudnn_cnn``, ``cudnn_adv``, ``cudnn_subquadratic``, ``cudnn_gnn``, ``cublas``,
``cublaslt``; ``runtime``, ``memory`` and ``descriptors`` carry them.
"""

from __future__ import annotations

from . import (
    cublas,
    cublaslt,
    cudnn_adv,
    cudnn_cnn,
    cudnn_gnn,
    cudnn_graph,
    cudnn_ops,
    cudnn_subquadratic,
)
from .runtime import address, live_objects, take_pending

__all__ = [
    "address",
    "cublaslt",
    "cudnn_adv",
    "cudnn_cnn",
    "cudnn_gnn",
    "cudnn_ops",
    "cudnn_subquadratic",
    "live_objects",
    "take_pending",
    "version",
]

# cublasLt is a part of cuBLAS and counts with it.
_VERSIONS = {"cudnn": cudnn_graph.VERSION, "cublas": cublas.VERSION, "cublaslt": cublas.VERSION}


def version(library: str) -> int:
    """The version of "cudnn", "cublas" or "cublaslt" that the reference library follows."""
    return _VERSIONS[library]

"""cuDNN 9 and cuBLAS from Python, at the level of their descriptors.

``pycudnn.cudnn``, ``pycudnn.cublas`` and ``pycudnn.cublaslt`` hold handles, descriptors and
functions; ``pycudnn.raw`` every C function by its own name. Each runs on the real libraries
("cuda") and, with the same code, on a reference library in NumPy ("reference"). Importing needs
no library, no driver and no GPU.
"""

from pycudnn import errors
from pycudnn.context import CudaContext
from pycudnn.device import Device, Event, Graph, Stream, default_backend
from pycudnn.libraries import get_library
from pycudnn.memory import Buffer, PinnedBuffer, empty, from_numpy, pinned_empty, zeros
from pycudnn.settings import config
from pycudnn.show_config import show_config

__version__ = "0.1.0"

__all__ = [
    "Buffer",
    "CudaContext",
    "Device",
    "Event",
    "Graph",
    "PinnedBuffer",
    "Stream",
    "config",
    "default_backend",
    "empty",
    "errors",
    "from_numpy",
    "get_library",
    "pinned_empty",
    "show_config",
    "zeros",
]

"""Print the CUDA major that the NVIDIA driver supports (12 or 13), nothing without a driver.

Runs before anything is installed, so it asks libcuda itself.
"""

import ctypes

NEWEST_EXTRA = 13


def driver_cuda_major() -> int | None:
    """The newest CUDA major with an extra of ours that the installed driver runs."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return min(version.value // 1000, NEWEST_EXTRA) or None


if __name__ == "__main__":
    print(driver_cuda_major() or "")

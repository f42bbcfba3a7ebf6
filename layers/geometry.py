"""How a window slides: the output size of convolution and pooling."""

from __future__ import annotations

from layers.blob import Blob


def output_size(
    input: Blob, window: int, padding: int, stride: int, dilation: int = 1
) -> tuple[int, int]:
    """Return height and width after sliding a square window over ``input``.

    floor((extent + 2*padding - (dilation*(window-1) + 1)) / stride) + 1, as
    cudnnGetConvolution2dForwardOutputDim and cudnnGetPooling2dForwardOutputDim compute it, and
    without a library: a batch of 0, which no descriptor can hold, has an output size too.
    Raises ValueError where the window does not fit.
    """
    reach = dilation * (window - 1) + 1
    sizes = []
    for name, extent in (("height", input.h), ("width", input.w)):
        padded = extent + 2 * padding
        if reach > padded:
            raise ValueError(
                f"window {reach} > padded input {padded} ({name} {extent}, padding {padding})"
            )
        sizes.append((padded - reach) // stride + 1)
    return sizes[0], sizes[1]

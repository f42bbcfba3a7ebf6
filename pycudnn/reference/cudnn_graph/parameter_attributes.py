"""The attributes of tensors and of the parameters that operations share: the rows of the tables."""

from __future__ import annotations

import sys

from .attributes import ANY, REQUIRED, SOME, Kind, kind, tensor, value

KINDS: tuple[Kind, ...] = (
    kind(
        "POINTWISE",
        "POINTWISE_",
        2000,
        value("MODE", "POINTWISE_MODE", 0, unreadable=3000),
        value("MATH_PREC", "DATA_TYPE", 0, unreadable=3000),
        value("NAN_PROPAGATION", "NAN_PROPOGATION", 0, unreadable=3000),
        value("RELU_LOWER_CLIP", "FLOAT|DOUBLE", 0.0, unreadable=3000),
        value("RELU_UPPER_CLIP", "FLOAT|DOUBLE", sys.float_info.max, unreadable=3000),
        value("RELU_LOWER_CLIP_SLOPE", "FLOAT|DOUBLE", 0.0, unreadable=3000),
        value("ELU_ALPHA", "FLOAT|DOUBLE", 1.0, unreadable=3000),
        value("SOFTPLUS_BETA", "FLOAT|DOUBLE", 1.0, unreadable=3000),
        value("SWISH_BETA", "FLOAT|DOUBLE", 1.0, unreadable=3000),
        value("AXIS", "INT64", -1, unreadable=3000),
    ),
    kind(
        "CONVOLUTION",
        "CONVOLUTION_",
        2010,
        value("COMP_TYPE", "DATA_TYPE", 0),
        value("CONV_MODE", "CONVOLUTION_MODE", 0, unreadable=2010),
        value("DILATIONS", "INT64", REQUIRED, counts=SOME),
        value("FILTER_STRIDES", "INT64", REQUIRED, counts=SOME),
        value("POST_PADDINGS", "INT64", counts=SOME),
        value("PRE_PADDINGS", "INT64", counts=SOME),
        value("SPATIAL_DIMS", "INT64", REQUIRED, wrong_type=2000),
    ),
    kind(
        "TENSOR",
        "TENSOR_",
        2010,
        value("BYTE_ALIGNMENT", "INT64", 0, unreadable=3000),
        value("DATA_TYPE", "DATA_TYPE", 0),
        value("DIMENSIONS", "INT64", REQUIRED, counts=SOME),
        value("STRIDES", "INT64", REQUIRED, counts=SOME),
        value("VECTOR_COUNT", "INT64", 1),
        value("VECTORIZED_DIMENSION", "INT64", -1),
        value("UNIQUE_ID", "INT64", 0),
        value("IS_VIRTUAL", "BOOLEAN", False),
        value("IS_BY_VALUE", "BOOLEAN", False),
        value("REORDERING_MODE", "TENSOR_REORDERING_MODE", 0, unreadable=2010),
        tensor("RAGGED_OFFSET_DESC", counts=ANY),
        value("RAGGED_OFFSET_MULTIPLIER", "INT64", 1),
    ),
    kind(
        "MATMUL",
        "MATMUL_",
        2000,
        value("COMP_TYPE", "DATA_TYPE", 0),
        value("PADDING_VALUE", "INT64|FLOAT|DOUBLE|INT32", 0.0),
    ),
    kind(
        "REDUCTION",
        "REDUCTION_",
        2000,
        value("OPERATOR", "REDUCTION_OPERATOR_TYPE", REQUIRED),
        value("COMP_TYPE", "DATA_TYPE", REQUIRED),
        value("IS_DETERMINISTIC", "BOOLEAN", False),
    ),
    kind(
        "RESAMPLE",
        "RESAMPLE_",
        2000,
        value("MODE", "RESAMPLE_MODE", 0),
        value("COMP_TYPE", "DATA_TYPE", 0),
        value("SPATIAL_DIMS", "INT64"),
        value("POST_PADDINGS", "INT64|FRACTION", counts=SOME),
        value("PRE_PADDINGS", "INT64|FRACTION", counts=SOME),
        value("STRIDES", "INT64|FRACTION", counts=SOME),
        value("WINDOW_DIMS", "INT64|FRACTION", counts=SOME),
        value("NAN_PROPAGATION", "NAN_PROPOGATION", 0),
        value("PADDING_MODE", "PADDING_MODE", 0),
    ),
)

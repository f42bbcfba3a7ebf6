"""Graphs in compressed sparse columns, and the arguments that all calls share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudnn.abi.cudnn_enums import DataType
from pycudnn.abi.types import cudnnGnnCscGraph_t

from ..memory import numpy_dtype, raw
from ..runtime import bad_param

Array = np.ndarray[Any, Any]

FLOATING = (DataType.FLOAT, DataType.HALF, DataType.BFLOAT16)


@dataclass
class Graph:
    """Which sources each destination has. Edges stand by destination; ``places`` says where each
    has its features."""

    offsets: Array
    sources: Array
    places: Array
    source_count: int
    index_type: DataType
    reversible: bool  # are the arrays of the reversed graph there?

    @property
    def destination_count(self) -> int:
        """Of destination nodes."""
        return len(self.offsets) - 1

    @property
    def edge_count(self) -> int:
        """Of edges."""
        return len(self.sources)

    def destinations(self) -> Iterator[tuple[int, Array, Array]]:
        """Each destination with edges: itself, its sources, the places of its edges' features."""
        for node in range(self.destination_count):
            edges = slice(self.offsets[node], self.offsets[node + 1])
            if edges.start < edges.stop:
                yield node, self.sources[edges], self.places[edges]


def read_graph(address: int) -> Graph:
    """The graph of a cudnnGnnCscGraph_t; BAD_PARAM for one that is none."""
    if not address:
        raise bad_param("graph is NULL")
    struct = cudnnGnnCscGraph_t.from_address(address)
    for name in ("nSrcNodes", "nDstNodes", "nIndices"):
        if getattr(struct, name) <= 0:
            raise bad_param(f"{name} is {getattr(struct, name)}, must be positive")
    if struct.idxType not in (DataType.INT32, DataType.INT64):
        raise bad_param(f"idxType is {struct.idxType}, must be INT32 or INT64")
    if not struct.cscOffsets or not struct.cscIndices:
        raise bad_param("cscOffsets or cscIndices is NULL")
    index_type, edges = DataType(struct.idxType), struct.nIndices
    places = np.arange(edges)
    if struct.mapCscToCoo:
        places = read_array(struct.mapCscToCoo, edges, index_type)
    return Graph(
        read_array(struct.cscOffsets, struct.nDstNodes + 1, index_type),
        read_array(struct.cscIndices, edges, index_type),
        places,
        struct.nSrcNodes,
        index_type,
        bool(struct.cscRevOffsets and struct.mapRevToCoo),
    )


def read_array(address: int, count: int, data_type: DataType) -> Array:
    """So many elements in contiguous memory; no copy."""
    kind = numpy_dtype(data_type)
    return np.frombuffer(raw(address, count * kind.itemsize), kind)


def check_features(name: str, address: int, size: int) -> None:
    """An array that is NULL if and only if its rows have no elements."""
    if size < 0:
        raise bad_param(f"the size of {name} is {size}, must not be negative")
    if bool(address) != bool(size):
        raise bad_param(f"{name} is {'not NULL' if address else 'NULL'}, its size is {size}")


def check_type(name: str, data_type: int, *alternatives: int) -> DataType:
    """FLOAT, HALF or BFLOAT16; where there are alternatives, one of them."""
    if data_type not in FLOATING or (alternatives and data_type not in alternatives):
        raise bad_param(f"{name} is {data_type}, must be FLOAT, HALF or BFLOAT16 as the data")
    return DataType(data_type)

"""Plans as JSON text and back: an engine configuration and all the descriptors that it holds."""

from __future__ import annotations

import json
from typing import Any

from ..runtime import Status, bad_param
from .descriptor import Descriptor, finalize, new
from .version import VERSION


def dump(config: Descriptor) -> bytes:
    """The JSON text of a finalized engine configuration."""
    document = {"cudnn": VERSION, "library": "pycudnn reference", "config": _plain(config)}
    return json.dumps(document, separators=(",", ":")).encode()


def _plain(descriptor: Descriptor) -> dict[str, Any]:
    """A descriptor as lists by attribute; what can be derived is left out."""
    return {
        "kind": descriptor.kind.name,
        **{
            row.name: [
                _plain(value) if isinstance(value, Descriptor) else value
                for value in descriptor.values[row.name]
            ]
            for row in descriptor.kind.attributes.values()
            if row.writable and row.name in descriptor and row.name != "HANDLE"
        },
    }


def load(text: bytes, handle: int) -> Descriptor:
    """The engine configuration of a JSON text, finalized, its graph with this handle."""
    try:
        document = json.loads(text)
        version, config = document["cudnn"], document["config"]
    except (ValueError, KeyError, TypeError):
        raise bad_param("the JSON representation is of no plan of this library") from None
    if version != VERSION:
        raise bad_param(f"the plan was made by version {version}, this is {VERSION}")
    try:
        return _descriptor(config, handle)
    except Status:
        raise
    except Exception as error:
        raise bad_param(f"the JSON representation is damaged: {error}") from None


def _descriptor(plain: dict[str, Any], handle: int) -> Descriptor:
    descriptor = new(plain["kind"])
    for name, values in plain.items():
        if name != "kind":
            descriptor.values[name] = tuple(_value(value, handle) for value in values)
    if handle and any(row.name == "HANDLE" for row in descriptor.kind.attributes.values()):
        descriptor.values["HANDLE"] = (handle,)
    finalize(descriptor)
    return descriptor


def _value(value: Any, handle: int) -> Any:
    if isinstance(value, dict):
        return _descriptor(value, handle)
    return tuple(value) if isinstance(value, list) else value  # a fraction

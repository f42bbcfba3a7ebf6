"""The committed tables against the vendor headers that are installed, and against gcc."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pycudnn import abi, loader
from pycudnn.abi import types

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
ABI = ROOT / "pycudnn" / "abi"

if not (SCRIPTS / "derive_prototypes.py").is_file():
    pytest.skip("scripts/ is not in this installation", allow_module_level=True)


def _script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


derive = _script("derive_prototypes")
INCLUDES = {library: derive.installed_include(library) for library in derive.HEADERS}
ENUM_MODULES = {library: getattr(types, f"{library}_enums") for library in derive.HEADERS}


@pytest.fixture(scope="module")
def declared():
    """What the installed headers declare, by library."""
    pytest.importorskip("pycparser")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    missing = [library for library, include in INCLUDES.items() if include is None]
    if missing:
        pytest.skip(f"no headers of {' and '.join(missing)} are installed")
    return {library: derive.parse(library, include) for library, include in INCLUDES.items()}


def _table_versions(library: str) -> list[tuple[int, ...]]:
    """The header versions that the committed table was made from, oldest first."""
    text = " ".join((ABI / f"{library}.py").read_text().split('"""')[1].split())
    read = re.search(r"headers of \w+ ([\d., ]+);", text)
    return [tuple(map(int, version.split("."))) for version in read[1].split(", ")]


@pytest.mark.parametrize("library", derive.HEADERS)
def test_prototypes_are_those_of_the_installed_headers(declared, library):
    found, table = declared[library], abi.prototypes(library)
    newest = _table_versions(library)[-1]
    assert len(found.functions) > {"cudnn": 200, "cublas": 500, "cublaslt": 40}[library]
    for name, function in found.functions.items():
        if name not in table:
            assert found.version > newest, f"{name} is missing: run scripts/derive_prototypes.py"
            continue
        committed = table[name]
        assert committed.result == function.result
        assert [a.type for a in committed.arguments] == [a.type for a in function.arguments], name
        assert tuple(map(int, committed.since.split("."))) <= found.version
        if found.version == newest:
            assert tuple(committed.arguments) == tuple(function.arguments)
            assert committed.header == function.header
            assert committed.deprecated == function.deprecated
    if found.version == newest:
        assert set(table) == set(found.functions)


def grows(enumerator: str) -> bool:
    """Is this one the number of enumerators, which each version has its own of?"""
    return enumerator.endswith(("COUNT", "COUNTS", "_END"))


# Enumerators that headers had before a version and the table, made from newer ones, has not.
DROPPED = {
    "cublaslt": ((13, 0, 0), "_ATOMIC_SYNC"),
}


def was_dropped(library: str, version: tuple[int, ...], enumerator: str) -> bool:
    """Have newer headers no longer got this one?"""
    until, part = DROPPED.get(library, (version, ""))
    return version < until and part in enumerator


@pytest.mark.parametrize("library", derive.HEADERS)
def test_enums_are_those_of_the_installed_headers(declared, library):
    found, module = declared[library], ENUM_MODULES[library]
    newest = _table_versions(library)[-1]
    assert len(found.enums) >= 10
    for c_name, members in found.enums.items():
        if c_name not in module.ENUMS:
            assert found.version > newest, f"{c_name}: run scripts/derive_prototypes.py"
            continue
        enum = module.ENUMS[c_name]
        if found.version == newest:
            names = derive.member_names(list(members))
            assert dict(enum.__members__) == {names[name]: members[name] for name in members}
            continue
        values = {int(member) for member in enum}
        for name, value in members.items():
            if not grows(name) and not was_dropped(library, found.version, name):
                assert value in values, f"{name} is not in the table"
    for name, value in found.constants.items():
        if found.version == newest:
            assert getattr(module, name) == value


def test_generated_files_are_what_the_script_writes(declared):
    for library, found in declared.items():
        versions = _table_versions(library)
        if found.version != versions[-1]:
            pytest.skip(f"{library}: other headers are installed than the table was made from")
        older = [derive.Declarations(version) for version in versions[:-1]]
        merged = derive.merge([*older, found])
        for functions, table in (
            (merged.functions, abi.prototypes(library)),
            (merged.inline, abi.INLINE),
        ):
            for name, function in functions.items():
                functions[name] = function._replace(since=table[name].since)
        texts = {
            f"{library}.py": derive.render_prototypes(library, merged, [*older, found]),
            f"{library}_enums.py": derive.render_enums(library, merged, [*older, found]),
        }
        for file, text in texts.items():
            assert (ABI / file).read_text() == text, f"{file}: run scripts/derive_prototypes.py"


def test_pxd_is_what_the_script_writes():
    text = _script("prototypes_pxd").render_pxd()
    assert (ROOT / "pycudnn" / "_prototypes.pxd").read_text() == text


def test_older_version_only_lowers_since(declared):
    newest = declared["cudnn"]
    name = "cudnnSetStream"
    older = derive.Declarations((8, 9, 7), {name: newest.functions[name]._replace(since="8.9.7")})
    older.functions["cudnnOld"] = newest.functions[name]._replace(name="cudnnOld", since="8.9.7")
    older.enums["cudnnSeverity_t"] = {"CUDNN_SEV_WITHDRAWN": 9, "CUDNN_SEV_FATAL": 7}
    older.enums["cudnnOld_t"] = {"CUDNN_OLD": 9}
    merged = derive.merge([newest, older])
    assert merged.version == newest.version
    assert merged.functions[name] == newest.functions[name]._replace(since="8.9.7")
    assert merged.functions["cudnnCreate"].since == derive.version_text(newest.version)
    assert "cudnnOld" in merged.functions
    assert merged.enums["cudnnSeverity_t"] == newest.enums["cudnnSeverity_t"]
    assert merged.enums["cudnnOld_t"] == {"CUDNN_OLD": 9}


@pytest.fixture(scope="module")
def compile_cpp(declared, tmp_path_factory):
    """A function that lets g++ check C++ source against the vendor headers."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    # The wheels lack some of CUDA's own headers; then the few types that are needed of them
    # come from the script's stand-ins.
    stand_ins = tmp_path_factory.mktemp("cuda")
    for name, text in derive.FAKE_HEADERS.items():
        if name not in ("stdint.h", "stddef.h", "stdio.h", "library_types.h"):
            (stand_ins / name).write_text(f"#pragma once\n{text}\n")
    # Included with quotes, CUDA's headers are looked for beside the header that includes them.
    for name in ("cublas_api.h", "cublasLt.h"):
        shutil.copy(INCLUDES["cublas"] / name, stand_ins)
    headers = "#include <cstddef>\n#include <cudnn.h>\n#include <cublas_api.h>\n"
    headers += "#include <cublasLt.h>\n"
    headers += "".join(
        f'#if __has_include("{name}.h")\n#include "{name}.h"\n#endif\n'
        for name in derive.HEADERS["cudnn"]
    )
    # CUDA 12's wheels keep the runtime's headers in a directory of their own.
    runtime = INCLUDES["cublas"].parents[1] / "cuda_runtime" / "include"
    if not any(
        (include / "library_types.h").is_file() for include in (INCLUDES["cublas"], runtime)
    ):
        pytest.skip("CUDA's library_types.h is not installed")
    real = [f"-I{include}" for include in (*INCLUDES.values(), runtime)]
    errors = []
    for includes in (real, [f"-I{stand_ins}", *real]):
        command = [
            "g++",
            "-x",
            "c++",
            "-std=c++17",
            "-fsyntax-only",
            "-DCUBLASAPI=",
            *includes,
            "-",
        ]

        def run(source: str, command: list[str] = command) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command, input=headers + source, text=True, capture_output=True, check=False
            )

        errors.append(run("").stderr)
        if not errors[-1]:
            return run
    raise AssertionError(f"the installed headers do not compile: {errors[-1][:2000]}")


def test_every_prototype_compiles_against_the_headers(declared, compile_cpp):
    lines = []
    for library, found in declared.items():
        for name in found.functions:
            proto = abi.prototypes(library).get(name)
            if proto is None:
                continue  # a newer header than the table: the test above says so
            arguments = ", ".join(argument.type for argument in proto.arguments)
            lines.append(f"{proto.result} (*check_{name})({arguments}) = {name};")
    lines += [
        f"{proto.result} (*check_{proto.name})"
        f"({', '.join(argument.type for argument in proto.arguments)}) = {proto.name};"
        for proto in map(abi.INLINE.get, declared["cublaslt"].inline)
        if proto is not None
    ]
    assert len(lines) > 700
    result = compile_cpp("\n".join(lines))
    assert result.returncode == 0, result.stderr[:3000]


def test_a_wrong_prototype_does_not_compile(declared, compile_cpp):
    proto = abi.prototype("cudnn", "cudnnSetStream")
    arguments = ", ".join(argument.type for argument in reversed(proto.arguments))
    result = compile_cpp(f"{proto.result} (*check)({arguments}) = {proto.name};")
    assert result.returncode != 0
    assert "cudnnSetStream" in result.stderr or "invalid conversion" in result.stderr


def test_every_enumerator_has_the_value_that_gcc_sees(declared, compile_cpp):
    lines = []
    for library, found in declared.items():
        module = ENUM_MODULES[library]
        for c_name, members in found.enums.items():
            names = derive.member_names(list(members))
            for c_member in members:
                member = getattr(module.ENUMS.get(c_name), names[c_member], None)
                if member is not None and not grows(c_member):
                    lines.append(f'static_assert({c_member} == {int(member)}, "{c_member}");')
    assert len(lines) > 500
    result = compile_cpp("\n".join(lines))
    assert result.returncode == 0, result.stderr[:3000]


def test_struct_layouts_are_those_of_gcc(declared, compile_cpp):
    older = [
        library
        for library, found in declared.items()
        if found.version < _table_versions(library)[-1]
    ]
    if older:
        pytest.skip(f"structs of {' and '.join(older)} have grown since the installed headers")
    structs = [s for s in types.STRUCTS.values() if not issubclass(s, types.Opaque)]
    structs += [types.cuComplex, types.cuDoubleComplex]
    lines = []
    for struct in structs:
        name = struct.__name__
        lines.append(f'static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{name}");')
        fields = [*getattr(struct.__base__, "_fields_", []), *struct.__dict__.get("_fields_", [])]
        for field, type_, *_ in fields:
            value = f"(({name} *)0)->{field}"
            lines.append(
                f"static_assert(offsetof({name}, {field}) == {getattr(struct, field).offset} && "
                f'sizeof({value}) == {ctypes.sizeof(type_)}, "{name}.{field}");'
            )
    assert len(lines) == 78  # 16 structs and their 62 fields
    result = compile_cpp("\n".join(lines))
    assert result.returncode == 0, result.stderr[:3000]


def test_numbers_have_the_sizes_of_gcc(declared, compile_cpp):
    lines = [
        f'static_assert(sizeof({name}) == {ctypes.sizeof(type_)}, "{name}");'
        for name, type_ in types.NUMBERS.items()
    ]
    result = compile_cpp("\n".join(lines))
    assert result.returncode == 0, result.stderr[:3000]


def test_v2_symbols_stand_where_the_old_interface_has_the_short_name(declared):
    text = (INCLUDES["cublas"] / "cublas_v2.h").read_text()
    mapped = re.findall(r"^#define (cublas\w+) +(cublas\w+)$", text, re.MULTILINE)
    table = abi.prototypes("cublas")
    declared_pairs = [(short, symbol) for short, symbol in mapped if symbol in table]
    assert len(declared_pairs) > 150
    for short, symbol in declared_pairs:
        assert short not in table, symbol


def test_functions_of_the_old_cublas_interface_name_those_of_today(declared):
    header = (INCLUDES["cublas"] / "cublas.h").read_text()
    old = set(re.findall(r"\b(cublas[A-Z]\w*)\s*\(", header))
    assert len(old) == 157
    table = abi.prototypes("cublas")
    for name in old:
        assert name not in table
        text = str(loader.function_not_found("cublas", name))
        assert re.search(r"; use (\w+_v2|.*cudaMalloc|.*cudaFree|the status)\b", text), text


@pytest.mark.parametrize(
    ("members", "names"),
    [
        (["CUDNN_DATA_FLOAT", "CUDNN_DATA_HALF"], ["FLOAT", "HALF"]),
        (["CUDNN_CONVOLUTION", "CUDNN_CROSS_CORRELATION"], ["CONVOLUTION", "CROSS_CORRELATION"]),
        (["CUDNN_X_ALGO_0", "CUDNN_X_ALGO_FFT"], ["ALGO_0", "FFT"]),
        (["CUDNN_A_ONLY"], ["A_ONLY"]),
    ],
)
def test_member_names(members, names):
    assert list(derive.member_names(members).values()) == names

"""Derive pycudnn's tables of C functions and enums from NVIDIA's headers.

    python scripts/derive_prototypes.py tables --cudnn DIR [DIR ...] --cublas DIR [DIR ...]
        --cublaslt DIR [DIR ...]
    python scripts/derive_prototypes.py pxd
    python scripts/derive_prototypes.py names DIR > tests/abi/cudnn_8_functions.txt

`tables` writes pycudnn/abi/{cudnn,cublas,cublaslt}.py and {cudnn,cublas,cublaslt}_enums.py there.
Each DIR is an include directory; its version is read from the headers in it. With several
directories the newest one gives a function's prototype and the oldest one that declares it gives
its `since`. Without any directory the headers of the installed NVIDIA wheels are read. Needs
pycparser and gcc.

`pxd` writes pycudnn/_prototypes.pxd, the function-pointer types of the calls that the Cython
extension makes, from the committed tables.

`names` prints the functions that the headers of a cuDNN 8 declare, which pycudnn's list of removed
functions is checked against.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

HEADERS = {
    # The last two are not in every cuDNN 9.
    "cudnn": (
        *("cudnn_graph", "cudnn_ops", "cudnn_cnn", "cudnn_adv"),
        *("cudnn_subquadratic_ops", "cudnn_gnn_ops"),
    ),
    "cublas": ("cublas_api",),
    "cublaslt": ("cublasLt",),
}
TITLES = {"cudnn": "cuDNN", "cublas": "cuBLAS", "cublaslt": "cublasLt"}
# Enums of CUDA's own headers that cuBLAS functions take.
SHARED_HEADERS = {"cudnn": (), "cublas": ("library_types",), "cublaslt": ()}
# Read for their types alone.
INCLUDED_HEADERS = {"cudnn": ("cudnn_version",), "cublas": (), "cublaslt": ("cublas_api",)}

# What the vendor headers need of the CUDA and system headers, so that neither has to be parsed.
FAKE_HEADERS = {
    "stdint.h": "typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t;"
    "typedef unsigned long size_t, uint64_t; typedef unsigned short uint16_t;",
    "stddef.h": "#include <stdint.h>",
    "stdio.h": "typedef struct FILE FILE;",
    "driver_types.h": "#include <stdint.h>\ntypedef struct CUstream_st *cudaStream_t;"
    "typedef struct CUgraph_st *cudaGraph_t;",
    "cuda_runtime_api.h": '#include "driver_types.h"',
    "cuComplex.h": "typedef struct { float x, y; } cuComplex;"
    "typedef struct { double x, y; } cuDoubleComplex;",
    "cuda_fp16.h": "typedef struct { unsigned short x; } __half;",
    "cuda_bf16.h": "typedef struct { unsigned short x; } __nv_bfloat16;",
    # Neither library's wheel has this one where CUDA's headers are in a wheel of their own.
    "library_types.h": "typedef int libraryPropertyType, cudaDataType, cudaDataType_t,"
    "cudaEmulationStrategy, cudaEmulationMantissaControl, cudaEmulationSpecialValuesSupport;",
}
# `#define`s worth a name in Python; the others are version numbers and include guards.
CONSTANTS = re.compile(
    r"#define (CUDNN_(?:DIM|SEV|LRN|BN|RNN|SEQDATA|ATTN)_\w+|CUBLASLT_NUMERICAL_\w+) (.+)"
)


class Argument(NamedTuple):
    """One argument of a C function."""

    type: str
    name: str


class Function(NamedTuple):
    """One C function. The fields are those of pycudnn.abi.Prototype."""

    name: str
    result: str
    arguments: tuple[Argument, ...]
    header: str
    since: str
    deprecated: bool


@dataclass
class Declarations:
    """What one version of a library's headers declares."""

    version: tuple[int, ...]
    functions: dict[str, Function] = field(default_factory=dict)
    inline: dict[str, Function] = field(default_factory=dict)  # defined in the header itself
    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    opaque: dict[str, str] = field(default_factory=dict)  # pointer type -> struct
    structs: dict[str, int] = field(default_factory=dict)  # struct of 64-bit words -> how many
    constants: dict[str, int | float] = field(default_factory=dict)


def version_text(version: tuple[int, ...]) -> str:
    """(9, 28, 1) as "9.28.1"."""
    return ".".join(map(str, version))


def header_version(library: str, include: Path) -> tuple[int, ...]:
    """Version of the headers in `include`, as they state it."""
    if library == "cudnn":
        text = (include / "cudnn_version.h").read_text()
        names = ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")
    else:
        text = (include / "cublas_api.h").read_text()
        names = ("CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH")
    numbers = []
    for name in names:
        match = re.search(rf"#define {name} (\d+)", text)
        if match is None:
            raise SystemExit(f"{include}: no {name} in the headers of {library}")
        numbers.append(int(match[1]))
    return tuple(numbers)


def installed_include(library: str) -> Path | None:
    """Include directory of the installed NVIDIA wheel, None without one."""
    wanted = HEADERS[library][0] + ".h"
    for entry in sys.path:
        for pattern in ("cudnn", "cu1*", "cublas"):
            for include in sorted(Path(entry or ".").glob(f"nvidia/{pattern}/include")):
                if (include / wanted).is_file():
                    return include
    return None


def preprocess(library: str, include: Path, work: Path) -> tuple[str, str]:
    """The headers as plain C for pycparser, and their macros (output of gcc -dM)."""
    for name, text in FAKE_HEADERS.items():
        (work / name).write_text(f"#pragma once\n{text}\n")
    for name in (*HEADERS[library], *SHARED_HEADERS[library], *INCLUDED_HEADERS[library]):
        source = include / f"{name}.h"
        if source.is_file():
            # The half and bfloat16 functions are C functions inside `#if __cplusplus`.
            text = re.sub(
                r"#if defined\(__cplusplus\)\n(?!\s*(?:extern|\}))", "#if 1\n", source.read_text()
            )
            (work / source.name).write_text(text)
    unit = work / "unit.c"
    present = (name for name in HEADERS[library] if (work / f"{name}.h").is_file())
    unit.write_text("".join(f'#include "{name}.h"\n' for name in present))
    command = ["gcc", "-E", "-nostdinc", "-DCUDNN_WARN_DEPRECATED", "-DCUBLASAPI="]
    command += [f"-I{work}", str(unit)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    macros = subprocess.run([*command, "-dM"], check=True, stdout=subprocess.PIPE, text=True).stdout
    # pycparser knows no attributes. `inline` takes the place of the one on a function.
    deprecated = r"__attribute__\(\(deprecated\)\)"
    text = re.sub(rf"^{deprecated}", "inline", text, flags=re.MULTILINE)
    return re.sub(deprecated, "", text), macros


def spell(node: object) -> str:
    """C spelling of a type; an array parameter is spelled as the pointer that it is."""
    from pycparser import c_ast

    if isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl)):
        inner = spell(node.type)
        qualifiers = node.quals if isinstance(node, c_ast.PtrDecl) else node.dim_quals
        star = "*" + " ".join(qualifiers)
        return inner + star if inner.endswith("*") else f"{inner} {star}"
    if isinstance(node, c_ast.TypeDecl):
        if not isinstance(node.type, c_ast.IdentifierType):
            raise ValueError(f"{node.coord}: cannot spell {type(node.type).__name__}")
        names = " ".join(node.type.names)
        return " ".join([*node.quals, "unsigned int" if names == "unsigned" else names])
    raise ValueError(f"cannot spell {type(node).__name__}")


def evaluate(node: object, known: dict[str, int]) -> int:
    """Value of the constant expression of an enumerator."""
    from pycparser import c_ast

    if isinstance(node, c_ast.Constant):
        return int(node.value.rstrip("uUlL"), 0)
    if isinstance(node, c_ast.ID):
        return known[node.name]
    if isinstance(node, c_ast.UnaryOp) and node.op == "-":
        return -evaluate(node.expr, known)
    if isinstance(node, c_ast.BinaryOp):
        left, right = evaluate(node.left, known), evaluate(node.right, known)
        operations = {"<<": left << right, "|": left | right, "+": left + right}
        return operations[node.op]
    raise ValueError(f"{type(node).__name__} in an enumerator")


def enum_members(node: object, known: dict[str, int]) -> dict[str, int]:
    """Enumerators and values of the enum that a typedef names, none where it names another type."""
    from pycparser import c_ast

    members: dict[str, int] = {}
    inner = node.type if isinstance(node, c_ast.TypeDecl) else None
    if isinstance(inner, c_ast.Enum) and inner.values:
        following = 0
        for item in inner.values.enumerators:
            value = evaluate(item.value, known | members) if item.value else following
            members[item.name] = value
            following = value + 1
    return members


def declared_function(node: object, header: str, version: str, deprecated: bool) -> Function:
    """A function's declaration as a row of the table."""
    parameters = node.type.args.params if node.type.args else []
    arguments = tuple(
        Argument(spell(parameter.type), parameter.name)
        for parameter in parameters
        if spell(parameter.type) != "void"
    )
    return Function(node.name, spell(node.type.type), arguments, header, version, deprecated)


def parse(library: str, include: Path) -> Declarations:
    """Read the headers of one version of `library`."""
    from pycparser import c_ast, c_parser

    work = Path(tempfile.mkdtemp(prefix="pycudnn-headers-"))
    try:
        text, macros = preprocess(library, include, work)
        tree = c_parser.CParser().parse(text)
    finally:
        shutil.rmtree(work)
    found = Declarations(header_version(library, include))
    enumerators: dict[str, int] = {}
    wanted = (*HEADERS[library], *SHARED_HEADERS[library])
    for node in tree.ext:
        header = Path(node.coord.file).stem
        if header not in (*wanted, *INCLUDED_HEADERS[library]):
            continue
        if isinstance(node, c_ast.Typedef):
            members = enum_members(node.type, enumerators)
            enumerators |= members
            if members and header in wanted:
                found.enums[node.name] = members
        if header not in wanted:
            continue
        version = version_text(found.version)
        if isinstance(node, c_ast.FuncDef):
            found.inline[node.decl.name] = declared_function(node.decl, header, version, False)
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            found.functions[node.name] = declared_function(
                node, header, version, "inline" in node.funcspec
            )
        elif isinstance(node, c_ast.Typedef):
            target = node.type
            pointer = isinstance(target, c_ast.PtrDecl)
            if pointer:
                target = target.type
            inner = target.type if isinstance(target, c_ast.TypeDecl) else None
            if isinstance(inner, c_ast.Struct) and inner.decls is None and pointer:
                found.opaque[node.name] = inner.name
            elif isinstance(inner, c_ast.Struct) and inner.decls and not pointer:
                words = inner.decls[0].type
                if len(inner.decls) == 1 and spell(words) == "uint64_t *":
                    found.structs[node.name] = evaluate(words.dim, enumerators)
            elif isinstance(inner, c_ast.IdentifierType) and inner.names[0] in found.structs:
                found.opaque[node.name] = inner.names[0]
    for name, value in CONSTANTS.findall(macros):
        expression = re.sub(r"\b(0x[0-9a-f]+|\d+)(?:ull|U)\b", r"\1", value)
        found.constants[name] = eval(expression, {"__builtins__": {}}, dict(enumerators))
    return found


def merge(versions: list[Declarations]) -> Declarations:
    """One table of all versions: the newest prototype, the oldest `since`."""
    newest, *older = sorted(versions, key=lambda found: found.version, reverse=True)
    merged = Declarations(newest.version)
    for found in (newest, *older):
        for into, functions in (
            (merged.functions, found.functions),
            (merged.inline, found.inline),
        ):
            for name, function in functions.items():
                known = into.setdefault(name, function)
                if [a.type for a in known.arguments] != [a.type for a in function.arguments]:
                    print(f"{name}: other argument types before {known.since}", file=sys.stderr)
                into[name] = known._replace(since=function.since)
        for c_name, members in found.enums.items():
            merged.enums.setdefault(c_name, members)
        merged.structs |= {k: v for k, v in found.structs.items() if k not in merged.structs}
        merged.opaque |= {k: v for k, v in found.opaque.items() if k not in merged.opaque}
        merged.constants |= {k: v for k, v in found.constants.items() if k not in merged.constants}
    return merged


def preamble(library: str, versions: list[Declarations], what: str) -> str:
    """Docstring and imports that a generated file begins with."""
    read = ", ".join(version_text(found.version) for found in versions)
    title = TITLES[library]
    docstring = textwrap.fill(
        f"{what} that {title} {version_text(versions[-1].version)} declares. "
        f"Generated by scripts/derive_prototypes.py from the headers of {title} {read}; "
        "do not edit.",
        97,
    )
    return f'"""{docstring}"""\n\nfrom __future__ import annotations\n\n'


def render_prototypes(library: str, merged: Declarations, versions: list[Declarations]) -> str:
    """Source of pycudnn/abi/<library>.py."""
    lines = [preamble(library, versions, "Prototypes of the functions")]
    lines.append("from pycudnn.abi.prototypes import Prototype, table\n\n")
    lines.append("# Types of handles and descriptors: pointer type, struct that it points to.\n")
    lines.append("OPAQUE: dict[str, str] = {\n")
    lines += [f'    "{name}": "{struct}",\n' for name, struct in merged.opaque.items()]
    lines.append("}\n")
    if merged.structs:
        lines.append("\n# Structs that only the library understands, and their 64-bit words.\n")
        lines.append("STRUCTS: dict[str, int] = {\n")
        lines += [f'    "{name}": {words},\n' for name, words in merged.structs.items()]
        lines.append("}\n")
    lines.append("\n# (result, name, ((type, argument), ...), header, since, deprecated)\n")
    lines.append("# fmt: off\nPROTOTYPES: dict[str, Prototype] = table((\n")
    lines += render_rows(merged.functions)
    lines.append("))\n")
    if merged.inline:
        lines.append("\n# Defined in the header, so no library has them.\n")
        lines.append("INLINE: dict[str, Prototype] = table((\n")
        lines += render_rows(merged.inline)
        lines.append("))\n")
    return "".join(lines)


def render_rows(functions: dict[str, Function]) -> list[str]:
    """The rows of a table of functions."""
    lines = []
    for p in functions.values():
        end = f'), "{p.header}", "{p.since}", {p.deprecated}),\n'
        lines.append(f'    ("{p.result}", "{p.name}", (')
        if not p.arguments and len(lines[-1]) + len(end) <= 100:
            lines.append(end)
            continue
        lines.append("\n")
        row = ""
        for argument in p.arguments:
            item = f'("{argument.type}", "{argument.name}"),'
            if row and len(row) + len(item) > 90:
                lines.append(f"        {row}\n")
                row = ""
            row = f"{row} {item}".lstrip()
        if row:
            lines.append(f"        {row}\n")
        lines.append(f"    {end}")
    return lines


def class_name(c_name: str) -> str:
    """Python name of an enum: ConvolutionMode of cudnnConvolutionMode_t."""
    name = re.sub(r"^(cudnn|cublasLt|cublas)", "", c_name).removesuffix("_t")
    return name[0].upper() + name[1:]


def member_names(members: list[str]) -> dict[str, str]:
    """Enumerators without the words that all of them begin with."""
    words = [name.split("_") for name in members]
    shared = 0
    # The last word is never cut; with one member alone, only the library's name is.
    limit = min(map(len, words)) - 1 if len(words) > 1 else 1
    while shared < limit and len({word[shared] for word in words}) == 1:
        shared += 1
    names = {}
    for name, word in zip(members, words, strict=True):
        start = shared
        while not "_".join(word[start:]).isidentifier():
            start -= 1
        names[name] = "_".join(word[start:])
    return names


def render_enums(library: str, merged: Declarations, versions: list[Declarations]) -> str:
    """Source of pycudnn/abi/<library>_enums.py."""
    lines = [preamble(library, versions, "Enums and constants")]
    lines.append("from enum import IntEnum\n")
    if merged.constants:
        lines.append("\n")
        lines += [f"{name} = {value}\n" for name, value in sorted(merged.constants.items())]
    for c_name, members in merged.enums.items():
        lines.append(f'\n\nclass {class_name(c_name)}(IntEnum):\n    """{c_name}"""\n\n')
        names = member_names(list(members))
        lines += [f"    {names[name]} = {value}\n" for name, value in members.items()]
    lines.append("\n\nENUMS: dict[str, type[IntEnum]] = {\n")
    lines += [f'    "{c_name}": {class_name(c_name)},\n' for c_name in merged.enums]
    lines.append("}\n")
    return "".join(lines)


def render_tables(includes: dict[str, list[Path]]) -> dict[Path, str]:
    """Generated files (path below the repository root: source) of the given header versions."""
    files = {}
    for library, directories in includes.items():
        versions = [parse(library, directory) for directory in directories]
        versions.sort(key=lambda found: found.version)
        merged = merge(versions)
        abi = Path("pycudnn/abi")
        files[abi / f"{library}.py"] = render_prototypes(library, merged, versions)
        files[abi / f"{library}_enums.py"] = render_enums(library, merged, versions)
    return files


def function_names(include: Path) -> list[str]:
    """The functions of cuDNN headers of any version, sorted."""
    text = "".join(path.read_text() for path in include.glob("cudnn*.h"))
    return sorted(set(re.findall(r"CUDNNWINAPI\s+(cudnn\w+)\s*\(", text)))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    tables = commands.add_parser("tables", help="write pycudnn/abi/*.py from vendor headers")
    for library in HEADERS:
        tables.add_argument(f"--{library}", type=Path, nargs="+", metavar="DIR", default=[])
    commands.add_parser("pxd", help="write pycudnn/_prototypes.pxd from the tables")
    names = commands.add_parser("names", help="print the functions that cuDNN headers declare")
    names.add_argument("include", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.command == "names":
        print("\n".join(function_names(arguments.include)))
        return
    if arguments.command == "tables":
        includes = {library: getattr(arguments, library) for library in HEADERS}
        for library, directories in includes.items():
            if not directories:
                include = installed_include(library)
                if include is None:
                    parser.error(f"no headers of {library} installed: give --{library} DIR")
                directories.append(include)
        files = render_tables(includes)
    else:
        from prototypes_pxd import render_pxd

        files = {Path("pycudnn/_prototypes.pxd"): render_pxd()}
    for path, text in files.items():
        (ROOT / path).write_text(text)
        print(f"{path}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()

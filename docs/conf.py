"""Sphinx builds the documents and the API reference: ``make docs``."""

from importlib.metadata import version as _version

project = "pycudnn"
author = "The pycudnn maintainers"
copyright = "the pycudnn maintainers"
release = version = _version("pycudnn")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"pycudnn {release}"
exclude_patterns = ["build"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,  # members of enums
    "inherited-members": "int, IntEnum, list, tuple, Exception",
    "show-inheritance": True,
}
python_use_unqualified_type_names = True
myst_heading_anchors = 4
suppress_warnings = [
    "myst.xref_missing",  # links to files of the repository
    "myst.header",
    "ref.python",  # both libraries have a Handle
]

"""`python -m pycudnn`: what pycudnn finds on this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from pycudnn.coverage import coverage, print_coverage
from pycudnn.show_config import config_info, show_config


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pycudnn",
        description="Print versions, driver, GPUs, libraries and what is missing.",
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="print how many functions of each C header pycudnn's tables declare, the real "
        "library exports, the reference library implements and the object face calls",
    )
    parser.add_argument(
        "--missing", action="store_true", help="with --coverage: name what is not there as well"
    )
    options = parser.parse_args(arguments)
    if options.missing and not options.coverage:
        parser.error("--missing goes with --coverage")
    if not options.coverage:
        if options.json:
            print(json.dumps(config_info(), indent=2))
        else:
            show_config()
    elif options.json:
        rows = coverage()
        print(json.dumps([row.as_json(options.missing) for row in rows], indent=2))
    else:
        print_coverage(options.missing)


if __name__ == "__main__":
    main()

"""`python -m pycudnn`: what pycudnn finds on this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from pycudnn.show_config import config_info, coverage, show_config


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
        help="print how many functions of each C header pycudnn's table declares, the real "
        "library exports and the reference library implements",
    )
    options = parser.parse_args(arguments)
    if not options.coverage:
        if options.json:
            print(json.dumps(config_info(), indent=2))
        else:
            show_config()
        return
    rows = coverage()
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'header':<12} {'declared':>9} {'exported':>9} {'reference':>10}")
    for row in rows:
        exported = "-" if row["exported"] is None else row["exported"]
        print(f"{row['header']:<12} {row['declared']:>9} {exported:>9} {row['reference']:>10}")


if __name__ == "__main__":
    main()

"""Run the parts named, or all, within some minutes; what was done before is not done again."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from torture import commands, estimators, fuzz, nulls
from torture.series import Part, go_on, table

PARTS = {
    name: Part(name, *setting)
    for module in (nulls, estimators, commands, fuzz)
    for name, setting in module.parts().items()
}


def main() -> None:
    asked = argparse.ArgumentParser(prog="torture", description=__doc__)
    asked.add_argument("parts", nargs="*", help=f"any of: {', '.join(PARTS)}; all by default")
    asked.add_argument("--minutes", type=float, default=600.0, help="shared evenly by the parts")
    asked.add_argument("--store", type=Path, default=Path("torture.jsonl"))
    asked.add_argument("--share", type=float, default=1.0, help="of the cases of each part")
    given = asked.parse_args()
    begin, chosen = time.monotonic(), given.parts or list(PARTS)
    for i, name in enumerate(chosen):
        now = time.monotonic()
        left = (begin + 60 * given.minutes - now) / (len(chosen) - i)
        go_on(PARTS[name], given.store, now + left, given.share)
        print(f"{name}: {time.monotonic() - now:.0f} s", flush=True)
    print(table(given.store))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the tables of docs/performance.md from the records in bench/records: what stands between the lines `<!-- NAME -->` and
`<!-- end -->`. The rest of the page is written by hand.

    page.py [--check]      --check writes nothing; exit status 1 when the page differs from the records
"""

import json
import pathlib
import sys

from targets import SMALLER_IS_BETTER, TARGETS, meets

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/performance.md"
CPU_NAMES = {
    "load_gb_per_s": "load, dense-equivalent GB/s",
    "volume_over_file": "volume / file",
    "bf_over_numpy": "BF r = 30, times NumPy",
    "adf_over_numpy": "ADF 30-60, times NumPy",
    "df_over_numpy": "DF >= 30, times NumPy",
    "com_over_numpy": "CoM, all pixels, times NumPy",
    "masked_com_over_numpy": "CoM, r < 60, times NumPy",
    "mean_over_numpy": "mean pattern, times NumPy",
    "load_memory_mb": "memory above the volume while loading, MB",
}


def reached(value: float, bounds: list, smaller: bool) -> str:
    """'stretch', 'must' or 'missed'."""
    for bound, word in zip(reversed(bounds), ("stretch", "must"), strict=True):
        if bound is not None and meets(value, bound, smaller):
            return word
    return "missed"


def digits(value: float) -> str:
    """Four significant digits, and never an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def cpu_table(record: dict) -> list[str]:
    lines = [
        f"{record['machine']}; commit {record['commit']}, {record['date']}.",
        "",
        "| | measured | must | stretch | reached |",
        "|---|---|---|---|---|",
    ]
    for key, value in record["ratios"].items():
        must, stretch = TARGETS["cpu"][key]
        lines.append(
            f"| {CPU_NAMES[key]} | {digits(value)} | {must} | {stretch} | {reached(value, [must, stretch], key in SMALLER_IS_BETTER)} |"
        )
    lines += ["", "| what | median ms | min - max |", "|---|---|---|"]
    lines += [
        f"| {row['what']} | {digits(row['median_ms'])} | {digits(row['min_ms'])} - {digits(row['max_ms'])} |" for row in record["rows"]
    ]
    return lines


def h200_table(record: dict) -> list[str]:
    lines = [
        f"{record['device']}, driver {record['driver']}, toolkit {record['toolkit']}; commit {record['commit']}, {record['date']}. "
        f"Reading all of the card's memory: {record['ceiling_gb_s']:.0f} GB/s in the same run.",
        "",
        "| | what | median ms | min - max | MB moved | of the ceiling | must | stretch | reached |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        if not row["exact"]:
            sys.exit(f"{row['target']}: the record holds a wrong answer")
        must, stretch = TARGETS["h200"].get(row["target"], (None, None))
        time = f"{digits(row['median_ms'])} | {digits(row['min_ms'])} - {digits(row['max_ms'])}" if row["median_ms"] else "|"
        share = f"{100 * row['share_of_ceiling']:.0f} %" if row["share_of_ceiling"] else ""
        word = reached(row["median_ms"], [must, stretch], smaller=True) if must else ""
        moved = f"{row['bytes'] / 1e6:.1f}" if row["bytes"] else ""
        lines.append(f"| {row['target']} | {row['what']} | {time} | {moved} | {share} | {must or ''} | {stretch or ''} | {word} |")
    return lines


def filled(page: str) -> str:
    for name, table in (("cpu", cpu_table), ("h200", h200_table)):
        head, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        if not mark or not end:
            sys.exit(f"docs/performance.md has no place for '{name}'")
        page = head + mark + "\n".join(table(json.loads((ROOT / f"bench/records/{name}.json").read_text()))) + "\n" + end + tail
    return page


def main() -> int:
    page = PAGE.read_text()
    wanted = filled(page)
    if "--check" in sys.argv[1:]:
        return 0 if page == wanted else 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())

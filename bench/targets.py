"""What bench/targets.json asks for: must and stretch of each number, and when a number meets one."""

import json
import pathlib

TARGETS = json.loads((pathlib.Path(__file__).resolve().parent / "targets.json").read_text())
SMALLER_IS_BETTER = {"volume_over_file", "load_memory_mb"}  # of the CPU's ratios; of the others more is better


def meets(value: float, bound: float, smaller: bool) -> bool:
    return value <= bound if smaller else value >= bound

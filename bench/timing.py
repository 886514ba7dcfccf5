"""Times of a call, taken alike for every peer."""

import statistics
import time


def timed(function, repeat: int = 3):
    """The result of function, and the median, the shortest and the longest of `repeat` times in ms."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = function()
        times.append(1e3 * (time.perf_counter() - start))
    return result, {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}

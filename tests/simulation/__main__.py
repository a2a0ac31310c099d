"""`python -m tests.simulation SEED [COUNT]`: what comes of a seed, or of several."""

import sys
import time

from tests.simulation.invariants import violations, violations_of
from tests.simulation.world import simulate


def main() -> int:
    """Simulate seeds; of a single one, print what happened."""
    first, total = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    bad = 0
    began = time.perf_counter()
    for seed in range(first, first + total):
        if total == 1:
            findings = simulate(seed)
            print(*findings.trace, sep="\n")
            found = violations(findings)
        else:
            found = violations_of(seed)
        bad += bool(found)
        for text in found:
            print(f"seed {seed}: {text}")
    print(f"{total} seeds, {bad} with violations, {time.perf_counter() - began:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs a test program once for each seed of tests/support/hostile_verbs, with verbs between its ranks.

    run_seeds.py LIBRARY FIRST-LAST PROGRAM [ARGUMENT...]

Even seeds force verbs between all ranks (GIMBAL_TRANSPORT); odd ones make nodes of two (GIMBAL_EMULATE_NODES), which share memory
inside and take verbs between. The processes of a run are joined by a fabric of its own, which ends with it. The first seed that fails
ends the whole, with the program's output.
"""

import os
import subprocess
import sys

LIMIT_S = 120
SKIPPED = 77


def run(library, seed, command):
    fabric = os.memfd_create("hostile_fabric")
    try:
        between = {"GIMBAL_EMULATE_NODES": "2"} if seed % 2 else {"GIMBAL_TRANSPORT": "verbs"}
        environment = {**os.environ, **between, "GIMBAL_IBV_SO": library, "HOSTILE_VERBS_SEED": str(seed), "GIMBAL_STRICT": "1",
                       "HOSTILE_VERBS_FABRIC": f"/proc/{os.getpid()}/fd/{fabric}"}
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=LIMIT_S, env=environment, check=False)
    finally:
        os.close(fabric)


def main():
    library, seeds, *command = sys.argv[1:]
    first, last = map(int, seeds.split("-"))
    for seed in range(first, last + 1):
        try:
            done = run(library, seed, command)
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            status, output = 1, (late.output or b"").decode(errors="replace") + f"\nkilled after {LIMIT_S} s"
        if status == SKIPPED:
            print(output)
            return SKIPPED
        if status != 0:
            print(f"{output}\nHOSTILE_VERBS_SEED={seed}: status {status}")
            return 1
    print(f"seeds {first} to {last}: every run passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

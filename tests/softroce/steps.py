#!/usr/bin/env python3
"""The steps that tests/softroce/run takes inside the emulated machine.

    steps.py BUILD

Prints what each step has seen, and exits 1 when one has failed.
"""

import sys
import time

import guest
from guest import Failed


def devices_are_up(_):
    output = guest.must("ibv_devinfo")
    if output.count("PORT_ACTIVE") != 2:
        raise Failed(f"rxe0 and rxe1 are not both up:\n{output}")
    return "rxe0 and rxe1"


def libibverbs_works(_):
    guest.pair("ibv_rc_pingpong", "-g", "1", "-e", "-n", "100", port=18515)
    return "ibv_rc_pingpong, 100 rounds"


def endpoints_conform(programs):
    output = guest.must(programs.endpoints, "--gtest_filter=*EndpointConformance*", "--gtest_brief=1", limit_s=150)
    return output.strip().splitlines()[-1].strip()


def main():
    programs = guest.Programs(sys.argv[1])
    steps = {
        "devices are up": devices_are_up,
        "libibverbs works": libibverbs_works,
        "endpoints conform": endpoints_conform,
    }
    failed = 0
    for name, step in steps.items():
        start = time.monotonic()
        try:
            said = step(programs)
            print(f"ok      {name} ({time.monotonic() - start:.1f} s): {said}", flush=True)
        except (Failed, OSError) as error:
            failed += 1
            print(f"FAILED  {name} ({time.monotonic() - start:.1f} s): {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The steps that tests/softroce/run takes inside the emulated machine.

    steps.py BUILD RESULTS SECONDS

Prints what each step has seen, and exits 1 when one has failed. Figures go to RESULTS/beside_perftest.jsonl. Past SECONDS nothing
new is begun that may be left out.
"""

import os
import pathlib
import sys
import time

import guest
from guest import Failed

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
KILLS = 50
# Of which a machine that is busy otherwise takes as many as it can in this time, and this many at least.
KILLS_LIMIT_S, FEWEST_KILLS = 110, 10


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


def results_are_right(programs):
    two = guest.bench(programs, 2, "-b", "8", "-e", "512K", "-f", "16", "-n", "3")
    four = guest.bench(programs, 4, "-b", "8", "-e", "64K", "-f", "128", "-n", "2")
    return f"{len(two)} sizes with 2 ranks, {len(four)} with 4"


def with_netem(programs, *discipline):
    for interface in ("ve0", "ve1"):
        guest.must("tc", "qdisc", "add", "dev", interface, "root", "netem", *discipline)
    try:
        table = guest.bench(programs, 2, "-b", "8", "-e", "128K", "-f", "128", "-n", "3")
    finally:
        for interface in ("ve0", "ve1"):
            guest.must("tc", "qdisc", "del", "dev", interface, "root")
    return f"{len(table)} sizes with 2 ranks"


def packets_are_lost(programs):
    return with_netem(programs, "loss", "1%")


def packets_are_reordered(programs):
    return with_netem(programs, "delay", "1ms", "reorder", "95%", "50%")


def a_killed_rank_is_named(programs):
    """kill -9 of one rank in full flight; the other says who is gone, and the kernel keeps nothing of either."""
    guest.wait_until(lambda: not guest.resources(), "nothing is held before the first job")
    deadline = time.monotonic() + KILLS_LIMIT_S
    for attempt in range(KILLS):
        if attempt >= FEWEST_KILLS and time.monotonic() > deadline:
            return f"{attempt} times in {KILLS_LIMIT_S} s, nothing left in rdma res"
        victim = attempt % 2
        with guest.Job(programs, "-b", "256K", "-e", "256K", "-N", "0", "-n", "2") as job:
            job.wait_for_row()
            time.sleep(attempt % 7 * 0.002)  # not always at the same place of a call
            job.ranks[victim].kill()
            output = job.end_of(1 - victim)
        if f"rank {victim}" not in output:
            raise Failed(f"attempt {attempt}: rank {1 - victim} did not name rank {victim}:\n{output[-1500:]}")
        if guest.resources():
            raise Failed(f"attempt {attempt}: the kernel still holds {guest.resources()}")
    return f"{KILLS} times, nothing left in rdma res"


def trouble_is_named(programs):
    job = [programs.bench, "-g", "2", "--transport", "verbs", "-b", "8", "-e", "8", "-n", "1"]
    said = [guest.must_say(["GID"], *job, GIMBAL_IB_GID_INDEX="77"),
            guest.must_say(["rxe_none"], *job, GIMBAL_IB_HCA="rxe_none")]
    one_without = ["sh", "-c", 'if [ "$RANK" = 1 ]; then export GIMBAL_IB_HCA=rxe_none; fi; exec "$0" "$@"', programs.bench]
    said.append(guest.must_say(["rank 1"], programs.run, "-n", "2", *one_without, *job[3:]))
    os.chmod("/dev/infiniband/uverbs0", 0o666)
    os.chmod("/dev/infiniband/uverbs1", 0o666)
    said.append(guest.must_say(["cannot register", "RLIMIT_MEMLOCK"], "prlimit", "--memlock=0", "setpriv", "--reuid=65534", "--clear-groups", *job))
    return "".join(f"\n    {line.strip()}" for line in said)


def an_mtu_that_differs(programs):
    """The cable of one side takes less: both sides meet at the lower path MTU."""
    guest.must("ip", "link", "set", "ve1", "mtu", "1500")
    try:
        return f"{len(guest.bench(programs, 2, '-b', '64K', '-e', '64K', '-n', '2'))} size with path MTU 1024"
    finally:
        guest.must("ip", "link", "set", "ve1", "mtu", "4200")


def speed_beside_perftest(programs, results, limit_s):
    """Figures, not a test: the processors are emulated and shared, so that a busy machine may not come to the end of it."""
    command = [sys.executable, "-B", SOURCE / "bench/verbs/beside_perftest", programs.build, "--rounds", "1"]
    try:
        output = guest.must(*command, limit_s=limit_s)
    except Failed as late:
        return f"no figures: {late}"
    (results / "beside_perftest.jsonl").write_text(output, encoding="utf-8")
    return "".join(f"\n    {line}" for line in output.splitlines())


def main():
    programs = guest.Programs(sys.argv[1])
    results = pathlib.Path(sys.argv[2])
    end = time.monotonic() + float(sys.argv[3])
    steps = {
        "devices are up": devices_are_up,
        "libibverbs works": libibverbs_works,
        "endpoints conform": endpoints_conform,
        "results are right": results_are_right,
        "packets are lost": packets_are_lost,
        "packets are reordered": packets_are_reordered,
        "trouble is named": trouble_is_named,
        "an MTU that differs": an_mtu_that_differs,
        "a killed rank is named": a_killed_rank_is_named,
        "speed beside perftest": lambda built: speed_beside_perftest(built, results, max(1, end - time.monotonic())),
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

"""Runs MLRsearch 1.2.1 on the simulated devices of searchbench, whose path is the first argument.

Prints a line of CSV per search: goals, kind, case, trials, seconds, lower and upper bound of the NDR, lower bound of the PDR.
The goals are those of FD.io CSIT (trials of 1 s, a sum of 21 s, half of them may lose more) and of RFC 2544 (final trials of
60 s, none may), for no loss and 0.5 % of loss, both with a width of 0.5 %. Cases and seeds are those of compare.go.
"""

import csv
import json
import subprocess
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

CAPACITIES, LOWEST, HIGHEST, LINE_RATE = 20, 0.1e6, 14e6, 14.88e6
GOALS = {
    "csit": (10, {"exceed_ratio": 0.5, "final_trial_duration": 1.0, "duration_sum": 21.0}),
    "rfc2544": (2, {"exceed_ratio": 0.0, "final_trial_duration": 60.0, "duration_sum": 60.0}),
}


class Device(AbstractMeasurer):
    """A simulated device behind a pipe."""

    def __init__(self, program, kind, case):
        capacity = LOWEST * (HIGHEST / LOWEST) ** ((case % CAPACITIES + 0.5) / CAPACITIES)
        self.process = subprocess.Popen(
            [program, "device", kind, repr(capacity), str(case + 1)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.trials, self.seconds = 0, 0.0

    def measure(self, intended_duration, intended_load):
        question = {"pps": intended_load, "frame_bytes": 64, "seconds": intended_duration}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.trials += 1
        self.seconds += answer["seconds"]
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=answer["sent"],
            forwarding_count=answer["received"],
        )

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def search(device, attributes):
    config = Config()
    config.goals = [
        SearchGoal(
            loss_ratio=loss, relative_width=0.005, initial_trial_duration=1.0, preceding_targets=2, expansion_coefficient=2, **attributes
        )
        for loss in (0.0, 0.005)
    ]
    config.min_load, config.max_load = 9001.0, LINE_RATE
    config.search_duration_max, config.warmup_duration = 36000.0, 0.0
    try:
        results = MultipleLossRatioSearch(config=config).search(measurer=device)
    except RuntimeError:  # no lower bound at the lowest load
        return ["", "", ""]
    ndr, pdr = results.values()
    bounds = ndr.relevant_lower_bound, ndr.relevant_upper_bound, pdr.relevant_lower_bound
    return [float(b) if b is not None else "" for b in bounds]


def main():
    program = sys.argv[1]
    listed = subprocess.run([program, "kinds"], stdout=subprocess.PIPE, text=True, check=True).stdout
    out = csv.writer(sys.stdout)
    for goals, (repeats, attributes) in GOALS.items():
        for kind in (line.split()[0] for line in listed.splitlines()):
            for case in range(CAPACITIES * repeats):
                device = Device(program, kind, case)
                bounds = search(device, attributes)
                device.close()
                out.writerow([goals, kind, case, device.trials, device.seconds, *bounds])


if __name__ == "__main__":
    main()

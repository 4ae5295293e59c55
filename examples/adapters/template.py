#!/usr/bin/env python3
"""The smallest adapter: a program that does the trials of 'mpps search --trial-command'.

It is started once. Each trial is a line of JSON on standard input,
    {"pps": 1000000, "frame_bytes": 64, "seconds": 1}      frame_bytes counts the FCS
and is answered by one line on standard output: what was sent and received, late frames
included, and how long the device was sent to, which may be simulated time,
    {"sent": 1000000, "received": 999990, "seconds": 1}    or {"error": "why there was no trial"}
Nothing else may be written there. Standard error is for people. At the end of the input
it ends, and on SIGTERM it stops what it sends and ends.

Here stands a device that forwards 1 234 567 frames a second and no more:
    mpps search --trial-command examples/adapters/template.py --max-pps 14.88M
"""
import json
import sys


def trial(pps, frame_bytes, seconds):
    """Drive your generator here. Tell what it really sent, not what it was asked to."""
    sent = round(pps * seconds)
    return {"sent": sent, "received": min(sent, round(1234567 * seconds)), "seconds": seconds}


for line in sys.stdin:
    try:
        answer = trial(**json.loads(line))
    except Exception as e:
        answer = {"error": str(e)}
    print(json.dumps(answer), flush=True)  # unflushed it would wait in a buffer

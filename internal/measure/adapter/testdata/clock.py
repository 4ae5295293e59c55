"""Runs a script for which time passes only while it sleeps, so that minutes of traffic take no time and are exact.

CLOCK is an address: what stands there is told how long each sleep was, and answers when it has slept as long.
"""
import os
import runpy
import socket
import sys
import time

now = 0.0
other = None
if os.environ.get("CLOCK"):
    host, port = os.environ["CLOCK"].rsplit(":", 1)
    other = socket.create_connection((host, int(port))).makefile("rw")


def sleep(seconds):
    global now
    now += seconds
    if other:
        other.write("%r\n" % seconds)
        other.flush()
        other.readline()


time.sleep, time.monotonic, time.time = sleep, lambda: now, lambda: now
del sys.argv[0]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")

# SPDX-License-Identifier: MIT
"""The lines by which ridge.measure.external times another program (lua/ridge/measure/external.lua).

A worker makes what is to be timed, then calls serve() with a function that runs it once, one that
returns what a run gives as a list of NumPy arrays (or None), and words that say what runs.
"""
import os
import time


def serve(run, results, words):
    channel = os.fdopen(3, "rb", buffering=0), os.fdopen(os.dup(3), "wb", buffering=0)
    lines, out = os.fdopen(os.dup(3), "r"), channel[1]

    def say(text):
        out.write((text.replace("\n", " ") + "\n").encode())

    say("ready " + words)
    for line in lines:
        order, _, rest = line.rstrip("\n").partition(" ")
        try:
            if order == "run":
                calls, windows = map(int, rest.split())
                times = []
                for _ in range(windows):
                    began = time.perf_counter_ns()
                    for _ in range(calls):
                        run()
                    times.append(time.perf_counter_ns() - began)
                say("ran " + " ".join(map(str, times)))
            elif order == "results":
                import numpy as np
                arrays = results()
                if arrays is None:
                    say("none")
                    continue
                for i, array in enumerate(arrays):
                    np.save(os.path.join(rest, f"{i + 1}.npy"), np.ascontiguousarray(array))
                say(f"wrote {len(arrays)}")
            else:
                say(f"error {order} is no order")
        except Exception as error:  # noqa: BLE001 - whatever it was is said, and the worker goes on
            say(f"error {type(error).__name__}: {error}")

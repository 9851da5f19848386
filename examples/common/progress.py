"""One line that shows how far trainings side by side are and how long they will take, until one of
the processes ends.

    python examples/common/progress.py --started 1700000000 --after 40 \\
        --lane 'HRT|logs/hrt.log|1000|95' 'IBDecoder|logs/ib.log|700|80' --lane
        'DAG|logs/dag.log|1000|220' -- 4711 4712

A lane is what one process does, step by step: title, log of ``fairseq-train --log-format simple``,
updates (0: no training), expected milliseconds an update (or of the whole step). The speed that is
seen corrects what was expected.
"""

import argparse
import os
import re
import sys
import time

UPDATES = re.compile(rb"num_updates[=: ]+(\d+)")
# Seconds of work after which the speed that is seen counts, and between two lines where they are
# not written over each other.
ENOUGH, EVERY = 5.0, 20.0


class Step:
    """A step of a lane as ``title|log|updates|milliseconds``.

    Raises:
        ValueError: it is none.
    """

    def __init__(self, text):
        try:
            self.title, self.log, updates, milliseconds = text.split("|")
            self.updates, self.expected = int(updates), float(milliseconds) / 1000
        except ValueError:
            raise ValueError(f"--lane {text!r} is not TITLE|LOG|UPDATES|MILLISECONDS") from None
        self.seconds = self.expected * max(self.updates, 1)

    def started(self):
        """Whether there is a log."""
        return os.path.exists(self.log)

    def done(self):
        """Updates so far, from the end of the log."""
        try:
            with open(self.log, "rb") as file:
                file.seek(max(0, os.path.getsize(self.log) - 8192))
                end = file.read()
        except OSError:
            return 0
        if b"done training in" in end:
            return self.updates
        found = UPDATES.findall(end)
        return min(int(found[-1]), self.updates) if found else 0


class Lane:
    """The steps of one process."""

    def __init__(self, steps):
        self.steps = steps
        # Of each step: time and updates as they were first seen, and when they last changed.
        # Programs also start, and wait for others.
        self.seen = {}

    def at(self, now):
        """(what it does, None when it has not begun or has ended; seconds it will still take)."""
        begun = [number for number, step in enumerate(self.steps) if step.started()]
        current = begun[-1] if begun else None
        work = sum(step.seconds for step in self.steps[:current]) if begun else 0.0
        shown = None
        if begun:
            step = self.steps[current]
            done = step.done() if step.updates else 0
            work += done * step.expected
            shown = f"{step.title} {done} of {step.updates} updates" if step.updates else step.title
            if step.updates and done == step.updates and current == len(self.steps) - 1:
                shown = None
            if done:
                first, last = self.seen.get(current, ((now, done), (now, done)))
                self.seen[current] = (first, (now, done) if done > last[1] else last)
        return shown, (sum(step.seconds for step in self.steps) - work) * self.pace()

    def pace(self):
        """Seconds that a second of expected work takes, as it is seen."""
        taken = sum(last[0] - first[0] for first, last in self.seen.values())
        expected = sum(
            (last[1] - first[1]) * self.steps[step].expected
            for step, (first, last) in self.seen.items()
        )
        return taken / expected if expected > ENOUGH else 1.0


def line(lanes, now, started, after):
    """What is shown: time since the start, what is done, time to go."""
    states = [lane.at(now) for lane in lanes]
    doing = [shown for shown, _ in states if shown] or ["starting"]
    left = max(seconds for _, seconds in states) + after
    about = f"{round(left / 60)} min" if left > 100 else f"{max(5, 5 * round(left / 5))} s"
    return f"[{now - started:3.0f} s] {', '.join(doing)}; about {about} to go"


def alive(process):
    """Whether a process runs."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def main(arguments=None):
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--started", type=float, required=True, help="Unix time of the start")
    parser.add_argument(
        "--after", type=float, default=0.0, help="seconds that come behind the lanes"
    )
    parser.add_argument(
        "--lane", nargs="+", action="append", type=Step, required=True, help="steps of a lane"
    )
    parser.add_argument("processes", nargs="+", type=int, help="the processes to wait for")
    options = parser.parse_args(arguments)
    lanes = [Lane(steps) for steps in options.lane]
    terminal = sys.stdout.isatty()
    said = time.time()
    try:
        while all(map(alive, options.processes)):
            now = time.time()
            text = line(lanes, now, options.started, options.after)
            if terminal:
                print("\r\033[K" + text, end="", flush=True)
            elif now - said >= EVERY:
                said = now
                print(text, flush=True)
            time.sleep(0.1)
        if terminal:
            print("\r\033[K", end="", flush=True)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

"""A slow reading of the rules of docs/goodput.md, to compare the ledger with: it shares no code with it.

Every instant between two neighbouring times of the timeline is asked anew who owns it, what is open in it and which step
it belongs to. Steps without ranks; whole seconds in, whole nanoseconds out.
"""

from itertools import pairwise

NS = 10**9
FAR = 10**30
SHOWN = {
    "provision",
    "wait_for_nodes",
    "init",
    "restore",
    "compile",
    "data_wait",
    "checkpoint_save",
    "evaluation",
    "idle",
}
RANK_OF_KIND = ["job_submitted", "END", "attempt_ended", "attempt_started", "START", "job_ended"]


def place(event):
    kind = event["kind"]
    kind = "END" if kind in ("step_ended", "phase_ended") else kind
    return event["t"], RANK_OF_KIND.index(kind) if kind in RANK_OF_KIND else RANK_OF_KIND.index("START")


def identity(event):
    return tuple(event.get(name) for name in ("kind", "attempt", "step", "phase", "t", "until"))


def judged(events):
    """The accepted events in order, and how many were not."""
    once = list({identity(event): event for event in reversed(events)}.values())
    pending = sorted(once, key=lambda e: (*place(e), e.get("step") or 0, e.get("phase") or ""))
    accepted, rejected, late = [], 0, []

    def take(event):
        nonlocal rejected
        if possible(event, accepted, once):
            accepted.append(event)
        else:
            rejected += 1

    for event in pending:
        if late and (event["t"] != late[0]["t"] or event["kind"] == "job_ended"):
            for one in late:
                take(one)
            late = []
        if event["kind"] in ("step_ended", "phase_ended") and not is_open(event, accepted):
            late.append(event)
        else:
            take(event)
    for one in late:
        take(one)
    return accepted, rejected


def is_open(event, accepted):
    """Whether what an end ends is open."""
    what, key = event["kind"].removesuffix("_ended"), "step" if event["kind"] == "step_ended" else "phase"
    state = False
    for before in accepted:
        if before.get("attempt") != event["attempt"]:
            continue
        if before["kind"] == f"{what}_started":
            if what == "step":
                state = before["step"] == event["step"]
            elif before["phase"] == event["phase"]:
                state = True
        elif before["kind"] == f"{what}_ended" and before[key] == event[key]:
            state = False
    return state


def possible(event, accepted, everything):
    kind, number = event["kind"], event.get("attempt")
    ended = any(e["kind"] == "job_ended" for e in accepted)
    if kind == "checkpoint_durable":
        return True
    if kind in ("job_ended", "job_submitted", "attempt_started", "attempt_ended") and any(
        e["kind"] == kind and e.get("attempt") == number for e in accepted
    ):
        return False
    if kind == "job_ended":
        return True
    over = any(e["kind"] == "attempt_ended" and e["attempt"] == number for e in accepted) and number is not None
    begun = any(e["kind"] == "attempt_started" and e["attempt"] == number for e in accepted)
    if kind == "job_submitted":
        return not ended and not over
    if kind == "attempt_started":
        return not ended
    starting = kind in ("step_started", "phase_started", "stall")
    if over or (ended and starting):
        return False
    if not begun and not (kind.startswith("phase") and event["phase"] in ("provision", "wait_for_nodes")):
        return False
    if kind in ("step_ended", "phase_ended"):
        return is_open(event, accepted)
    if kind == "step_started":
        return not is_open({**event, "kind": "step_ended"}, accepted)
    if kind == "phase_started" and is_open({**event, "kind": "phase_ended"}, accepted):
        # A later step of the attempt ended the phase, so it may start again.
        opened = max(
            at
            for at, e in enumerate(accepted)
            if e["kind"] == kind and e["attempt"] == number and e["phase"] == event["phase"]
        )
        if begun and not any(e["kind"] == "attempt_started" and e["attempt"] == number for e in accepted[:opened]):
            return True  # what was opened before the attempt ended with its start
        return begun and any(
            e["kind"] == "step_started" and e["attempt"] == number and e["t"] > accepted[opened]["t"]
            for e in accepted[opened:]
        )
    return True


class Sweep:
    def __init__(self, events):
        self.events, self.rejected = judged(events)
        begins = [e["t"] for e in self.events if e["kind"] in ("job_submitted", "attempt_started")]
        self.empty = not begins
        if self.empty:
            return
        jobs = [e for e in self.events if e["kind"] == "job_ended"]
        self.open = not jobs
        self.start = min(begins) * NS
        self.end = max((jobs[0]["t"] if jobs else max(e["t"] for e in self.events)) * NS, self.start)
        started = [e for e in self.events if e["kind"] == "attempt_started"]
        started.sort(key=lambda e: (e["t"], e["attempt"]))
        self.attempts = [self.attempt(e, e is started[-1], jobs) for e in started]
        self.reason = None
        if jobs:
            newest = self.attempts[-1]["reason"] if self.attempts else None
            self.reason = jobs[0].get("reason") or newest or "finished"
        self.early = self.early_phases()
        self.starts = self.all_starts()
        self.checkpoints = [(e["t"] * NS, e["step"]) for e in self.events if e["kind"] == "checkpoint_durable"]
        sound = [s for t, s in self.checkpoints if not any(at > t and to <= s for at, to in self.starts)]
        self.durable = max([*sound, *([self.starts[-1][1] - 1] if self.starts else [])], default=None)
        self.buckets, self.lost, self.provisional = {}, 0, 0
        self.ideal = self.find_ideal()
        self.run()

    def of(self, number, *kinds):
        return [e for e in self.events if e.get("attempt") == number and e["kind"] in kinds]

    def attempt(self, started, newest, jobs):
        number = started["attempt"]
        ended = self.of(number, "attempt_ended")
        mine = [e for e in self.events if e.get("attempt") == number and e["kind"] != "job_submitted"]
        if ended:
            end, reason = ended[0]["t"] * NS, ended[0].get("reason") or "unknown"
        elif not newest:
            told = [e for e in self.events if e.get("attempt") == number]
            end, reason = max(e["t"] for e in told) * NS, "lost"
        elif jobs:
            end, reason = jobs[0]["t"] * NS, jobs[0].get("reason") or "finished"
        else:
            end, reason = self.end, None
        a = {
            "n": number,
            "start": started["t"] * NS,
            "end": end,
            "reason": reason,
            "resume": started.get("resume_step"),
        }
        a["steps"] = self.steps(mine, a)
        a["phases"] = self.phases(mine, a)
        a["stalls"] = [(e["t"] * NS, e["until"] * NS) for e in mine if e["kind"] == "stall"]
        a["blocks"] = self.blocks(a)
        return a

    def steps(self, mine, a):
        found = []
        for at, e in enumerate(mine):
            if e["kind"] != "step_started":
                continue
            until = next((x for x in mine[at + 1 :] if x["kind"] in ("step_started", "step_ended")), None)
            step = {"s": e["step"], "start": e["t"] * NS, "every": e.get("every"), "open": until is None}
            step["ended"] = until is not None and until["kind"] == "step_ended"
            step["end"] = max(a["end"], step["start"]) if until is None else until["t"] * NS
            if step["ended"]:
                step["every"] = until.get("every") or step["every"]
            found.append(step)
        return found

    def phases(self, mine, a):
        found = []
        for at, e in enumerate(mine):
            if e["kind"] != "phase_started":
                continue
            begin = e["t"] * NS
            if begin < a["start"] or mine.index(e) < next(
                i for i, x in enumerate(mine) if x["kind"] == "attempt_started"
            ):
                same = (x for x in mine[at + 1 :] if x["kind"].startswith("phase") and x["phase"] == e["phase"])
                end = next(same, None)
                if (
                    end is not None
                    and end["kind"] == "phase_ended"
                    and mine.index(end) > next(i for i, x in enumerate(mine) if x["kind"] == "attempt_started")
                ):
                    found.append((e["phase"], a["start"], end["t"] * NS))
                continue
            end = next((x for x in mine[at + 1 :] if x["kind"].startswith("phase") and x["phase"] == e["phase"]), None)
            if end is not None and end["kind"] == "phase_ended":
                found.append((e["phase"], begin, end["t"] * NS))
                continue
            later = [x["t"] * NS for x in mine if x["kind"] == "step_started" and x["t"] * NS > begin]
            found.append((e["phase"], begin, min([*later[:1], max(a["end"], begin)])))
        return found

    def early_phases(self):
        found = []
        for number in {e["attempt"] for e in self.events if e["kind"] == "phase_started"}:
            mine = [e for e in self.events if e.get("attempt") == number and e["kind"] != "job_submitted"]
            begun = next((i for i, x in enumerate(mine) if x["kind"] == "attempt_started"), len(mine))
            for at, e in enumerate(mine[:begun]):
                if e["kind"] != "phase_started":
                    continue
                end = next(
                    (x for x in mine[at + 1 : begun] if x["kind"] == "phase_ended" and x["phase"] == e["phase"]), None
                )
                limit = mine[begun]["t"] * NS if begun < len(mine) else self.end
                found.append((e["phase"], e["t"] * NS, end["t"] * NS if end else limit))
        return found

    def blocks(self, a):
        steps, blocks = a["steps"], []
        for at, step in enumerate(steps):
            ahead = steps[at + 1]["s"] - step["s"] if at + 1 < len(steps) else 0
            b = {**step, "quotient": False, "first": at == 0, "back": at > 0 and step["s"] <= steps[at - 1]["s"]}
            if step["ended"]:
                b["n"] = step["every"] or 1
            elif ahead > 0:
                b["n"] = ahead
            else:
                b["n"] = step["every"] or (blocks[-1]["n"] if blocks else 1)
                b["quotient"] = b["n"] > 1
            done = not step["open"] or a["reason"] == "finished"
            b["fate"] = "complete" if done else "flight" if a["reason"] is None else "incomplete"
            blocks.append(b)
        return blocks

    def all_starts(self):
        found = []
        for a in self.attempts:
            low = [x for x in (a["resume"], a["blocks"][0]["s"] if a["blocks"] else None) if x is not None]
            if low:
                found.append((a["start"], min(low)))
            found += [(b["start"], b["s"]) for b in a["blocks"] if b["back"]]
        return sorted(found, key=lambda x: x[0])

    def is_lost(self, step, at):
        if any(t > at and to <= step for t, to in self.starts):
            return True
        failed = not self.open and self.reason != "finished"
        return failed and bool(self.checkpoints) and (self.durable is None or step > self.durable)

    # ── instants ──

    def owner(self, t):
        running = [a for a in self.attempts if a["start"] <= t < a["end"]]
        return running[-1] if running else None

    def label(self, a, t):
        if any(s <= t < e for s, e in a["stalls"]):
            return "hang"
        # The rules leave open which of two phases with both ends in common is shown: the first by name.
        inside = [(-s, e, name) for name, s, e in a["phases"] if name in SHOWN and s <= t < e]
        return min(inside)[2] if inside else None

    def atoms(self, start, end):
        cuts = {start, end}
        for a in self.attempts:
            spans = [(a["start"], a["end"]), *a["stalls"], *((s, e) for _, s, e in a["phases"])]
            cuts |= {t for span in spans for t in span}
            cuts |= {t for b in a["blocks"] for t in (b["start"], b["end"])}
        cuts |= {t for _, s, e in self.early for t in (s, e)} | {e["t"] * NS for e in self.events}
        return pairwise(
            sorted(t for t in cuts | {self.start, self.end} if max(start, self.start) <= t <= min(end, self.end))
        )

    def net(self, a, start, end):
        owned = [(s, e, self.label(a, s)) for s, e in self.atoms(start, end) if self.owner(s) is a]
        wall = sum(e - s for s, e, _ in owned)
        over = [(what, e - s) for s, e, what in owned if what]
        return wall - sum(ns for _, ns in over), over, wall

    def find_ideal(self):
        firsts, rest = [], []
        for a in self.attempts:
            for b in a["blocks"]:
                if b["fate"] != "complete" or b["quotient"]:
                    continue
                for part in self.whole(a, b, b["n"]):
                    if part["kept"]:
                        (firsts if b["first"] else rest).extend([part["net"] // part["n"]] * part["n"])
        nets = rest or firsts
        windows = [nets[at : at + 20] for at in range(max(len(nets) - 19, 1))] if nets else []
        return min((median(w) for w in windows), default=None)

    def whole(self, a, b, n):
        kept = [s for s in range(b["s"], b["s"] + n) if not self.is_lost(s, b["start"])]
        assert kept == list(range(b["s"], b["s"] + len(kept)))
        cut = b["start"] + (b["end"] - b["start"]) * len(kept) // n
        for start, end, first, count, is_kept in (
            (b["start"], cut, b["s"], len(kept), True),
            (cut, b["end"], b["s"] + len(kept), n - len(kept), False),
        ):
            net, over, wall = self.net(a, start, end)
            if count and (wall or start == end):
                yield {"s": first, "n": count, "net": net, "over": over, "kept": is_kept, "done": True}

    def torn(self, a, b):
        net, over, wall = self.net(a, b["start"], b["end"])
        if not wall:
            return
        flight = b["fate"] == "flight"
        done = min(net // self.ideal, b["n"] - 1) if self.ideal else 0
        at = b["start"]
        for step in range(b["s"], b["s"] + done):
            end = self.after(a, b, at, self.ideal)
            one, over, _ = self.net(a, at, end)
            yield {
                "s": step,
                "n": 1,
                "net": one,
                "over": over,
                "kept": not self.is_lost(step, b["start"]),
                "done": True,
            }
            at = end
        one, over, _ = self.net(a, at, b["end"])
        kept = flight and not self.is_lost(b["s"] + done, b["start"])
        yield {"s": b["s"] + done, "n": 1, "net": one, "over": over, "kept": kept, "done": False}

    def after(self, a, b, start, net):
        for s, e in self.atoms(start, b["end"]):
            if self.owner(s) is a and self.label(a, s) is None:
                if net <= e - s:
                    return s + net
                net -= e - s
        return b["end"]

    # ── buckets ──

    def put(self, bucket, ns):
        self.buckets[bucket] = self.buckets.get(bucket, 0) + ns

    def run(self):
        for a in self.attempts:
            for b in a["blocks"]:
                if b["fate"] != "complete":
                    parts = self.torn(a, b)
                else:
                    n = b["n"]
                    if b["quotient"] and self.ideal:
                        net = self.net(a, b["start"], b["end"])[0]
                        n = min(max((10 * net + self.ideal) // (10 * self.ideal), 1), n)
                    parts = self.whole(a, b, n)
                for part in parts:
                    self.count(part, b["first"])
        for s, e in self.atoms(self.start, self.end):
            a = self.owner(s)
            if a is None:
                self.put(self.absence(s), e - s)
            elif not any(b["start"] <= s < b["end"] for b in a["blocks"]):
                self.put(self.label(a, s) or "other", e - s)

    def count(self, part, first):
        for what, ns in part["over"]:
            self.put(what if part["kept"] or what == "hang" else "recompute", ns)
        net, n, ideal = part["net"], part["n"], self.ideal
        excess = net - n * ideal if ideal is not None and 10 * net > 11 * n * ideal else 0
        hung = bool(excess) and not first and net > n * max(10 * ideal, ideal + 60 * NS)
        if part["kept"]:
            self.put("productive", net - excess)
            self.put("compile" if first else "hang" if hung else "slow_steps", excess)
            beyond = [s for s in range(part["s"], part["s"] + n) if self.durable is None or s > self.durable]
            self.provisional += (net - excess) * len(beyond) // n
        else:
            self.put("hang", excess if hung else 0)
            self.put("recompute", net - (excess if hung else 0))
            self.lost += n if part["done"] else 0

    def absence(self, t):
        for name in ("provision", "wait_for_nodes"):
            if any(what == name and s <= t < e for what, s, e in self.early):
                return name
        begun = [a for a in self.attempts if a["start"] <= t]
        if not begun:
            return "queue_wait"
        asked = [e for e in self.events if e["kind"] == "job_submitted" and e.get("attempt") is not None]
        if not any(e["t"] * NS <= t and e["attempt"] not in {a["n"] for a in begun} for e in asked):
            return "down"
        last = max([a for a in begun if a["end"] <= t], key=lambda a: a["end"])
        return "queue_wait" if last["reason"] == "finished" else "wait_for_nodes"

    def answer(self):
        """What the ledger must say, in ns."""
        return {
            "wall": self.end - self.start,
            "buckets": {bucket: ns for bucket, ns in self.buckets.items() if ns},
            "lost_steps": self.lost,
            "ideal": self.ideal,
            "provisional": self.provisional if self.open and self.checkpoints else 0,
            "rejected": self.rejected,
        }


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2

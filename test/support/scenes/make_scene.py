#!/usr/bin/env python3
"""Write a test scene: a hidden-state tree as a run left it, its dataset, and truth.json.

  make_scene.py --scene storage-crash OUT
  make_scene.py --scene torn-tail --format ckpt.gz --samples 6000 --group 500 OUT
  make_scene.py --list

OUT gets dataset.jsonl, hidden_states/ (the tree to assess) and truth.json (the true state
of every dataset row; see the code that fills it). Same options and seed: the same bytes and
the same times. Standard library only.
"""
import argparse
import array
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import struct
import sys
import time

import tear as tearing
from torchfile import LAYOUTS, Tensor, pickle_of, records_of, safetensors_file, stem_of, zip_bytes

START = 1773454200            # 2026-03-14 02:10:00 UTC, when the run began
STEP = 0.43                   # seconds a sample
EXT = {"pt": ".pt", "ckpt": ".ckpt", "ckpt.gz": ".ckpt.gz", "safetensors": ".safetensors"}
WORDS = ("river", "ledger", "harbor", "signal", "copper", "window", "garden", "method", "winter", "engine",
         "paper", "valley", "orange", "pocket", "theory", "marble", "bridge", "lantern", "packet", "summer")


def iso(t):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t))


class Scene:
    """The tree being written, and what is true of it."""

    def __init__(self, out, name, about, samples, o, writers=None, tree="hidden_states"):
        self.out, self.name, self.about, self.n, self.o = out, name, about, samples, o
        self.fmt, self.group = o.format, o.group
        self.rng = random.Random(f"{o.seed}/{name}")
        self.tree = tree
        self.root = os.path.join(out, self.tree)
        self.flat = o.tree == "flat" or (o.tree == "auto" and self.fmt == "safetensors")
        self.at = {}                        # index -> time, where it is not the writer's pace
        self.long = {}                      # index -> tokens, where it is not drawn from seq-min..seq-max
        self.index = [None] * samples
        self.extras = []
        self.dirs = set()
        self.cache = {}
        self.drop = set()                   # rows that the dataset no longer has
        self.ids = None                     # dataset row -> original row, after a re-merge
        self.writers = writers or [{"from": 0, "to": samples}]
        self.rename = lambda i: i           # index -> what stands in the file name
        self.layouts = o.torch
        self.step = STEP
        self.killed = None
        self.notes = {}
        self.group_dir = lambda g: f"rows_{g}-{g + self.group}"
        pool = random.Random(f"{o.seed}/pool")
        self.tok = array.array("q", (pool.randrange(256, 151000) for _ in range(1 << 15))).tobytes()
        h = array.array("H", (0x3C00 + (x & 0x03FF) | (x & 0x8000) for x in array.array("H", pool.randbytes(1 << 19))))
        if sys.byteorder == "big":
            h.byteswap()
        self.hid = h.tobytes()              # bf16 between 2^-7 and 2^1, either sign
        self.salt = pool.randrange(1 << 30)
        os.makedirs(self.root, exist_ok=True)

    # -- a row's content

    def mix(self, i, k=0):
        x = (i * 0x9E3779B97F4A7C15 + self.salt * 0xBF58476D1CE4E5B9 + k * 0x94D049BB133111EB) & (1 << 64) - 1
        x ^= x >> 29
        x = x * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        return x ^ x >> 32

    def seq(self, i):
        n = self.long.get(i)
        return n or self.o.seq_min + self.mix(i) % (self.o.seq_max - self.o.seq_min + 1)

    def tokens(self, i):
        """int64 bytes of row i's ids: no two rows have the same."""
        n = self.seq(i)
        at = self.mix(i, 1) % ((1 << 15) - n) * 8
        own = struct.pack("<qq", 1, 1000 + (i * 7919 + self.salt) % 150000)
        return (own + self.tok[at:at + 8 * n])[:8 * n]

    def values(self, i, n, k):
        """n bf16 values for row i."""
        at = self.mix(i, 2 + k) % (1 << 18) * 2 if n <= (1 << 18) - 1 else 0
        b = self.hid[at:at + 2 * n]
        while len(b) < 2 * n:
            b += self.hid[:2 * n - len(b)]
        return b

    def mask(self, i, n=None):
        n = n or self.seq(i)
        ones = n - n // 2
        if self.o.mask == "bool":
            return Tensor("bool", (n,), bytes(n - ones) + b"\x01" * ones)
        return Tensor("int64", (n,), bytes(8 * (n - ones)) + struct.pack("<q", 1) * ones)

    def record(self, i, rows=None, width=None):
        """The dict a writer saves for row i: SpecForge's for torch files, vLLM's for
        safetensors. rows and width make a wrong shape."""
        n, h = self.seq(i), width or self.o.hidden
        m = rows if rows is not None else n
        ids = Tensor("int64", (n,), self.tokens(i))
        if self.fmt == "safetensors":
            return {"hidden_states": Tensor("bfloat16", (m, 4, h), self.values(i, m * 4 * h, 0)), "token_ids": ids}
        return {"input_ids": ids, "loss_mask": self.mask(i),
                "aux_hidden_state": Tensor("bfloat16", (1, m, 3 * h), self.values(i, m * 3 * h, 0)),
                "hidden_state": Tensor("bfloat16", (1, m, h), self.values(i, m * h, 1))}

    # -- files

    def name_of(self, i, fmt=None):
        fmt = fmt or self.fmt
        return ("hs_" if fmt == "safetensors" else "data_") + str(self.rename(i)) + EXT[fmt]

    def folder(self, i):
        return "" if self.flat else self.group_dir(i // self.group * self.group)

    def rel(self, i, fmt=None):
        return os.path.join(self.folder(i), self.name_of(i, fmt))

    def encode(self, record, name, fmt=None, i=0, stem=None):
        fmt = fmt or self.fmt
        if fmt == "safetensors":
            return safetensors_file(record)
        layout = self.layouts
        shape = tuple((k, t.dtype, t.shape) for k, t in record.items())
        pkl = self.cache.get(shape)
        if pkl is None:
            pkl = self.cache[shape] = pickle_of(record)[0]
        bodies = [(str(k), t.data) for k, t in enumerate(record.values())]
        crc = self.o.crc == "on"
        z = zip_bytes(stem or ("archive" if fmt == "ckpt.gz" else stem_of(name)), records_of(pkl, bodies, layout, crc), crc)
        if fmt == "ckpt.gz":
            f = io.BytesIO()
            with gzip.GzipFile(name, "wb", 6, f, self.when(i)) as g:
                g.write(z)
            return f.getvalue()
        return z

    def when(self, i):
        """When row i was written: each writer goes through its own range at one speed, a
        few samples out of order, as a pool of writing threads leaves it."""
        if i in self.at:
            return self.at[i]
        w = next((w for w in self.writers if w["from"] <= i < w["to"]), self.writers[0])
        return w.get("start", START) + (i - w["from"] + 1) * w.get("step", self.step) + self.mix(i, 9) % 1000 / 1000 * 6 * self.step

    def mkdir(self, rel):
        if rel not in self.dirs:
            os.makedirs(os.path.join(self.root, rel), exist_ok=True)
            self.dirs.add(rel)

    def write(self, rel, data, when):
        self.mkdir(os.path.dirname(rel))
        p = os.path.join(self.root, rel)
        with open(p, "wb", buffering=0) as f:
            if data:
                f.write(data)
        ns = int(when * 1000) * 1_000_000
        os.utime(p, ns=(ns, ns))
        return p

    def put(self, i, data=None, state="ok", rel=None, **why):
        """Row i has a file."""
        rel = rel or self.rel(i)
        if data is None:
            data = self.encode(self.record(i), os.path.basename(rel), i=i)
        self.write(rel, data, self.when(i))
        self.index[i] = {"i": i, "state": state, **why, "path": rel, "size": len(data)}

    def miss(self, i, reason):
        self.index[i] = {"i": i, "state": "missing", "reason": reason}

    def extra(self, rel, data, kind, why, when=None):
        """Something in the tree that is no row's file."""
        if data is not None:
            self.write(rel, data, when or self.when(0))
        self.extras.append({"path": rel, "kind": kind, "why": why})

    def torn(self, i, how, other=None):
        """Row i's file, torn in the given way."""
        rel = self.rel(i)
        good = self.encode(self.record(i), os.path.basename(rel), i=i)
        rng = random.Random(f"{self.o.seed}/{self.name}/{i}/{how}")
        bad, d = tearing.tear(good, how, rng, other if other is not None else self.encode(self.record(max(i - 1, 0)), self.name_of(max(i - 1, 0)), i=i))
        k = tearing.KINDS[how]
        seen = k.seen_by
        if self.o.crc == "off" and seen == "crc" and tearing.format_of(rel) == "zip":
            seen = "none" if how == "zip-bit-flip" else "content"
        whole = d.pop("data_whole")
        self.put(i, bad, "torn", reason=how, seen_by=seen, size_check=k.size, good_size=len(good), data_whole=whole, tear=d)

    def fill(self, a, b, skip=()):
        for i in range(a, b):
            if self.index[i] is None and i not in skip:
                self.put(i)

    # -- the dataset

    def row(self, i):
        k = self.mix(i, 4)
        w = [WORDS[(k >> 5 * j) % 20] for j in range(8)]
        head = f'{{"id":"s{i:06d}","conversations":[{{"role":"user","content":"{" ".join(w[:4])} {i}?"}},{{"role":"assistant","content":"{" ".join(w[4:])}."}}]'
        if self.o.dataset == "tokens":
            a = array.array("q", self.tokens(i))
            if sys.byteorder == "big":
                a.byteswap()
            head += ',"input_ids":' + json.dumps(a.tolist(), separators=(",", ":"))
        return head + "}"

    def dataset(self, when=None, end="\n", blank=()):
        """dataset.jsonl: the rows, less what a re-merge dropped."""
        self.ids = [i for i in range(self.n) if i not in self.drop]
        p = os.path.join(self.out, "dataset.jsonl")
        h = hashlib.sha256()
        with open(p, "wb") as f:
            for k, i in enumerate(self.ids):
                line = self.row(i) + (end if k == len(self.ids) - 1 else "\n")
                if k in blank:
                    line = "\n" + line
                line = line.encode()
                h.update(line)
                f.write(line)
        t = when or START - 3600
        os.utime(p, (t, t))
        return h.hexdigest()

    # -- truth

    def finish(self, **dataset):
        sha = self.dataset(**dataset)
        rows = len(self.ids)
        index = self.index[:rows]
        top = max((e["i"] for e in self.index if e and "path" in e), default=-1)
        for w in self.writers:
            w["next"] = max((i + 1 for i in range(w["from"], min(w["to"], self.n)) if self.index[i] and "path" in self.index[i]), default=w["from"])
        for i, e in enumerate(index):
            if e is None:
                w = next((w for w in self.writers if w["from"] <= i < w["to"]), None)
                index[i] = {"i": i, "state": "missing", "reason": "after-frontier" if w and i >= w["next"] else "failed-sample"}
        states, reasons = {}, {}
        for e in index:
            states[e["state"]] = states.get(e["state"], 0) + 1
            if e["state"] != "ok":
                key = e["state"] + "/" + e["reason"]
                reasons[key] = reasons.get(key, 0) + 1
        ok = states.get("ok", 0)
        files = sum("path" in e for e in index)
        last = max((self.when(e["i"]) for e in index if "path" in e), default=START)
        for d in sorted(self.dirs | {""}, reverse=True):
            if os.path.isdir(os.path.join(self.root, d)):
                os.utime(os.path.join(self.root, d), (int(last), int(last)))
        folders = {}
        for e in index:
            f = self.folder(e["i"])
            c = folders.setdefault(f, {"rows": 0, "files": 0, "ok": 0})
            c["rows"] += 1
            c["files"] += "path" in e
            c["ok"] += e["state"] == "ok"
        gone = lambda rs: sum(e["state"] == "missing" and e["reason"] in rs for e in index)
        after = gone(("after-frontier",))
        truth = {
            "schema": 1, "scene": self.name, "about": self.about, "seed": self.o.seed,
            "options": {"samples": self.n, "group": self.group, "hidden": self.o.hidden, "seq_min": self.o.seq_min,
                        "seq_max": self.o.seq_max, "format": self.fmt, "torch": self.layouts, "crc": self.o.crc, "mask": self.o.mask,
                        "dataset": self.o.dataset, "tree": "flat" if self.flat else "grouped"},
            "dataset": {"path": "dataset.jsonl", "rows": rows, "sha256": sha},
            "tree": self.tree,
            "run": {"started": iso(START), "last_write": iso(last), "killed": None if self.killed is False else iso(self.killed or last + 1), "writers": self.writers},
            "totals": {"rows": rows, "files": files, "no_file": rows - files, "no_file_inside": rows - files - after,
                       "no_file_after_frontier": after, "ok": ok, "redo": rows - ok,
                       "present_not_ok": files - ok, "next": top + 1,
                       "bytes": sum(e.get("size", 0) for e in index),
                       "states": dict(sorted(states.items())), "reasons": dict(sorted(reasons.items()))},
            "folders": folders, **self.notes,
        }
        with open(os.path.join(self.out, "truth.json"), "w") as f:
            f.write(json.dumps(truth, indent=1)[:-2])
            f.write(',\n "extras": [' + ",".join("\n  " + json.dumps(e) for e in self.extras) + ("\n ]" if self.extras else "]"))
            f.write(',\n "index": [\n  ' + ",\n  ".join(json.dumps(e) for e in index) + "\n ]\n}\n")
        for p in (os.path.join(self.out, "truth.json"), self.out):
            os.utime(p, (int(last), int(last)))
        return truth["totals"]


# ---------------------------------------------------------------- scenes

def scaled(n, x):
    """x of 37,312, for a scene of n rows."""
    return x if n == 37312 else max(1, round(n * x / 37312))


def crash_plan(s):
    """The frontier, and one failed sample in each of the third, fourth and fifth folders."""
    front = scaled(s.n, 18424)
    fails = []
    for g in (2, 3, 4):
        lo, hi = g * s.group, min((g + 1) * s.group, front - 1)
        if hi - lo > 20:
            fails.append(s.rng.randrange(lo + 10, hi - 5))
    for i in fails:
        s.miss(i, "failed-sample")
    return front, fails


def storage_crash(s):
    front, fails = crash_plan(s)
    s.fill(0, front, set(fails))
    s.finish()


def torn_tail(s):
    front, fails = crash_plan(s)
    kinds = tearing.kinds_for({"ckpt.gz": "gz", "safetensors": "st"}.get(s.fmt, "zip"))
    lo = max(0, front - 64)
    span = range(lo, front)
    for i in span:
        s.long[i] = 160 + s.mix(i, 7) % 81        # five pages and more, so that a page can be lost
    free = [i for i in span if s.index[i] is None]
    at = sorted(s.rng.sample(free[len(free) // 3:], min(len(kinds), len(free) * 2 // 3)))
    s.rng.shuffle(at)
    for i, how in zip(at, kinds):
        s.torn(i, how)
    s.fill(0, front, set(fails))
    s.notes["tail"] = {"from": lo, "to": front, "torn": sorted(at[:len(kinds)])}
    s.finish()


def clean(s):
    s.fill(0, s.n)
    s.killed = False
    s.finish()


def clean_partial(s):
    s.fill(0, s.n // 2)
    s.killed = False
    s.finish()


def dataset_drift(s):
    cut = s.rng.randrange(s.n * 2 // 5, s.n * 3 // 5)
    s.fill(0, s.n)
    s.killed = False
    s.drop = {cut}
    for j in range(cut, s.n - 1):
        e = s.index[j]
        s.index[j] = {"i": j, "state": "mismatch", "reason": "dataset-shift", "seen_by": "content",
                      "holds_row": None if j == cut else j - 1, "wanted_in": s.rel(j + 1), "path": e["path"], "size": e["size"]}
    last = s.n - 1
    s.extras.append({"path": s.rel(last), "kind": "beyond-dataset", "holds_row": last - 1,
                     "why": "index past the last dataset row; holds what the last row now wants"})
    s.index[last] = None
    s.notes["drift"] = {"removed_index": cut, "removed_id": f"s{cut:06d}", "rows_before": s.n, "rows_now": s.n - 1,
                        "recoverable_by_reindex": s.n - 1 - cut,
                        "about": "from removed_index on, row j's content stands in the file of index j+1; the file at removed_index holds a row that is gone"}
    s.finish(when=START + 90000)


def mixed_writers(s):
    half = s.n // 2
    s.writers = [{"rank": 0, "from": 0, "to": half, "step": 0.51}, {"rank": 1, "from": half, "to": s.n, "step": 0.437}]
    dead = START + 0.51 * (half * 0.62)
    ends = [int((dead - START) / w["step"]) + w["from"] for w in s.writers]
    for g in range(0, s.n, s.group):          # each writer makes its folders when it starts
        if not s.flat:
            s.mkdir(s.group_dir(g))
    for w, end in zip(s.writers, ends):
        i = w["from"] + s.rng.randrange((end - w["from"]) // 4, (end - w["from"]) * 3 // 4)
        s.miss(i, "failed-sample")
        s.fill(w["from"], end)
    s.killed = dead + 10
    s.notes["shared_folder"] = s.folder(half)
    s.finish()


def foreign_files(s):
    front = s.n * 3 // 5
    fails = {s.rng.randrange(10, front // 2)}
    for i in fails:
        s.miss(i, "failed-sample")
    pick = s.rng.sample([i for i in range(20, front - 20) if i not in fails], 16)
    s.fill(0, front)
    rel = lambda i, tail: os.path.join(s.folder(i), tail)
    st = s.fmt == "safetensors"
    ext, pre = EXT[s.fmt], "hs_" if st else "data_"
    good = lambda i, name, fmt=None: s.encode(s.record(i), name, fmt, i)
    a = pick
    whole = good(a[0], s.name_of(a[0]))
    s.extra(rel(a[0], s.name_of(a[0]) + ".tmp"), whole[:len(whole) // 2], "temp", "half-written temporary file beside the finished one")
    s.extra(rel(front, f".{s.name_of(front)}.x7Qk2a"), whole[:200], "temp", "an rsync temporary file of the sample after the frontier; that row has no file")
    s.extra(rel(a[1], "tmpk3v9q0d_"), whole, "temp", "temporary file with a whole sample in it and no index in its name")
    s.extra(rel(a[2], s.name_of(a[2]) + ".lock"), b"", "lock", "lock file beside a finished sample")
    s.extra(rel(front + 1, s.name_of(front + 1) + ".lock"), b"", "lock", "lock file of a row that has no file")
    s.extra(rel(a[3], s.name_of(a[3]) + "~"), whole, "backup", "editor backup")
    s.extra(rel(a[4], f"{pre}{a[4]} (1){ext}"), whole, "off-pattern", "a copy that a file manager named")
    s.extra(rel(a[5], f"{pre}-1{ext}"), whole, "off-pattern", "negative index")
    s.extra(rel(a[6], f"{pre}1e3{ext}"), whole, "off-pattern", "not a decimal index")
    s.extra(rel(a[7], f"{pre}{ext}"), whole, "off-pattern", "no index")
    s.extra(rel(a[8], f"{pre}{s.n + 1234}{ext}"), good(0, f"{pre}{s.n + 1234}{ext}"), "beyond-dataset", "index past the last row of the dataset")
    s.extra(rel(a[9], f"sample_{a[9]}{ext}"), whole, "off-pattern", "another stem")
    s.extra(rel(a[10], f"{pre}{a[10]:06d}{ext}"), whole, "off-pattern", "zero-padded: not the name the writer gives row %d, and it holds row %d" % (a[10], a[0]))
    s.extra(os.path.join("lost+found", "#131074"), whole, "lost+found", "a file that the file-system check found, name gone; holds row %d" % a[0])
    s.extra(".nfs000000000a3c1b4400000012", whole[:99], "temp", "deleted while open on a network file system")
    s.extra("progress.json", b'{"done": %d, "total": %d}\n' % (front - 1, s.n), "other", "another tool's progress file, one off")
    s.extra("desktop.ini", b"[x]\n", "other", "no sample")
    if not s.flat:
        # The first folder, or where that is the only one, a folder past the dataset.
        i = next((x for x in range(front - 1, 0, -1) if x // s.group and x not in fails), None)
        last = (s.n + s.group - 1) // s.group * s.group
        wrong, where = s.group_dir(0), "of rows 0 on"
        if i is None:
            i = next(x for x in range(front - 1, 0, -1) if x not in fails)
            wrong, where, last = s.group_dir(last), "past the dataset", last + s.group
        s.extra(os.path.join(wrong, s.name_of(i)), good(i, s.name_of(i)), "wrong-folder", "row %d's name in the folder %s; the right folder has the file too" % (i, where))
        s.mkdir(s.group_dir(last))
        s.extras.append({"path": s.group_dir(last), "kind": "empty-folder", "why": "a folder past the dataset, empty"})
    # two files for one index
    if not st:
        other = "ckpt" if s.fmt == "pt" else "pt"
        for i, how, why in ((a[11], None, "whole and the same tensors"), (a[12], "zip-cut-tensor-data", "torn"), (a[13], "zero-length", "empty")):
            rel2 = s.rel(i, other)
            b = good(i, os.path.basename(rel2), other)
            if how:
                b = tearing.tear(b, how, random.Random(f"{s.o.seed}/{i}"))[0]
            s.write(rel2, b, s.when(i) + 40)
            s.index[i]["also"] = [{"path": rel2, "size": len(b), "state": "torn" if how else "ok", **({"reason": how} if how else {})}]
        i = a[14]                              # the later of the two holds another row
        rel2 = s.rel(i, other)
        b = good(a[15], os.path.basename(rel2), other)
        s.write(rel2, b, s.when(i) + 40)
        s.index[i]["also"] = [{"path": rel2, "size": len(b), "state": "mismatch", "reason": "other-row", "holds_row": a[15]}]
    s.notes["duplicates"] = sum("also" in e for e in s.index if e)
    s.finish()


def bad_values(s):
    front = s.n * 4 // 5
    pick = s.rng.sample(range(5, front - 5), 42)
    nan, inf, ninf = (0x7FC0).to_bytes(2, "little"), (0x7F80).to_bytes(2, "little"), (0xFF80).to_bytes(2, "little")
    huge = (0x7F7F).to_bytes(2, "little")      # 3.39e38, the largest finite bf16

    def spoil(i, what):
        r = s.record(i)
        keys = [k for k, t in r.items() if t.dtype == "bfloat16"]
        key = keys[s.mix(i, 11) % len(keys)]
        if what == "all-zero":                # every state of the sample
            for k in keys:
                r[k].data = bytes(len(r[k].data))
            return r, "all hidden states", sum(len(r[k].data) // 2 for k in keys)
        d = bytearray(r[key].data)
        n = len(d) // 2
        row = len(d) // s.seq(i)
        at = s.mix(i, 12) % n * 2
        if what in ("nan", "inf", "negative-inf", "huge"):
            d[at:at + 2] = {"nan": nan, "inf": inf, "negative-inf": ninf, "huge": huge}[what]
            c = 1
        elif what == "nan-all":
            d, c = bytearray(nan * n), n
        elif what == "nan-last-row":
            d[-row:], c = nan * (row // 2), row // 2
        elif what == "zero-rows":             # the last third of the sequence
            k = max(1, s.seq(i) // 3)
            d[-row * k:], c = bytes(row * k), row // 2 * k
        r[key].data = bytes(d)
        return r, key, c

    what = ["nan"] * 8 + ["nan-all"] * 4 + ["nan-last-row"] * 5 + ["inf"] * 6 + ["negative-inf"] * 3 + ["all-zero"] * 6 + ["zero-rows"] * 6 + ["huge"] * 4
    for i, w in zip(pick, what):
        r, key, c = spoil(i, w)
        data = s.encode(r, s.name_of(i), i=i)
        if w == "huge":
            s.put(i, data, note="one value is the largest finite bf16: finite, so not a fault")
        else:
            s.put(i, data, "bad-values", reason=w, seen_by="content", tensor=key, values=c)
    s.fill(0, front)
    s.finish()


def wrong_shape(s):
    front = s.n * 4 // 5
    whats = ["rows-short"] * 8 + ["rows-long"] * 5 + ["no-rows"] * 3 + ["width"] * 6 + ["mask-length"] * 5 + ["missing-tensor"] * 4 + ["one-state-short"] * 5
    pick = s.rng.sample(range(5, front - 5), len(whats))
    for i, w in zip(pick, whats):
        n = s.seq(i)
        if s.fmt == "safetensors" and w in ("mask-length", "one-state-short"):
            w = "rows-short"
        if w == "rows-short":
            r = s.record(i, rows=max(1, n - 1 - s.mix(i, 13) % max(1, n // 2)))
        elif w == "rows-long":
            r = s.record(i, rows=n + 1)
        elif w == "no-rows":
            r = s.record(i, rows=0)
        elif w == "width":
            r = s.record(i, width=s.o.hidden // 2 or 1)
        elif w == "mask-length":
            r = s.record(i)
            r["loss_mask"] = s.mask(i, n - 1)
        elif w == "missing-tensor":
            r = s.record(i)
            del r[list(r)[0 if s.fmt == "safetensors" else -1]]
        else:
            r = s.record(i)
            r["hidden_state"] = Tensor("bfloat16", (1, n - 1, s.o.hidden), s.values(i, (n - 1) * s.o.hidden, 1))
        shapes = {k: list(t.shape) for k, t in r.items()}
        s.put(i, s.encode(r, s.name_of(i), i=i), "wrong-shape", reason=w, seen_by="structure" if s.fmt == "safetensors" else "content",
              tokens=n, shapes=shapes)
    s.fill(0, front)
    s.finish()


SCENES = {
    "storage-crash": (storage_crash, 37312, "storage went away mid-run: ten folders, three earlier failures inside, nothing torn"),
    "torn-tail": (torn_tail, 37312, "the same run, and files among the last 64 written are torn, each in another way"),
    "clean": (clean, 4000, "every row has its file"),
    "clean-partial": (clean_partial, 6000, "the run was stopped half way, nothing torn or skipped"),
    "dataset-drift": (dataset_drift, 6000, "every row had its file; then the dataset was re-merged without one row in its middle"),
    "mixed-writers": (mixed_writers, 9000, "two ranks wrote a half each and died at once: two frontiers, one folder shared"),
    "foreign-files": (foreign_files, 4500, "temporary files, locks, lost+found, odd names, and rows with two files"),
    "nan": (bad_values, 3000, "some files whole and hold NaN, Inf or all-zero hidden states"),
    "wrong-shape": (wrong_shape, 3000, "some files whole and their tensors do not fit the row"),
}


def parser():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out", nargs="?", help="folder to write into: new or empty")
    a.add_argument("--scene", choices=list(SCENES))
    a.add_argument("--list", action="store_true")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--samples", type=int, help="dataset rows (each scene has its own default)")
    a.add_argument("--group", type=int, default=2000, help="samples per folder")
    a.add_argument("--hidden", type=int, default=8)
    a.add_argument("--seq-min", type=int, default=6)
    a.add_argument("--seq-max", type=int, default=16)
    a.add_argument("--format", choices=list(EXT), default="pt")
    a.add_argument("--torch", choices=LAYOUTS, default="2.7", help="which torch's records the files have")
    a.add_argument("--crc", choices=("on", "off"), default="on", help="off: every CRC in the files is 0 (torch's save.compute_crc32 = False)")
    a.add_argument("--mask", choices=("int64", "bool"), default="int64", help="dtype of loss_mask")
    a.add_argument("--dataset", choices=("tokens", "chat"), default="tokens", help="whether dataset rows carry input_ids")
    a.add_argument("--tree", choices=("auto", "grouped", "flat"), default="auto", help="auto: flat for safetensors, else rows_A-B folders")
    a.add_argument("--force", action="store_true", help="remove OUT first if it holds a scene")
    return a


def prepare(out, force):
    if os.path.isdir(out) and os.listdir(out):
        if not force or not os.path.isfile(os.path.join(out, "truth.json")):
            sys.exit(f"{out} is not empty" + ("" if force else " (--force replaces an earlier scene)"))
        shutil.rmtree(out)
    os.makedirs(out, exist_ok=True)


def check(o, samples):
    if o.seq_min < 4 or o.seq_max < o.seq_min or o.hidden < 2 or o.group < 1:
        sys.exit("need seq-min >= 4, seq-max >= seq-min, hidden >= 2, group >= 1")
    if samples < 200 or samples > 150000:
        sys.exit("need 200 to 150,000 samples")


def main(argv=None):
    a = parser()
    o = a.parse_args(argv)
    if o.list:
        for k, (_, n, about) in SCENES.items():
            print(f"{k:15} {n:6,} rows  {about}")
        return
    if not o.scene or not o.out:
        a.error("give --scene and OUT")
    fn, n, about = SCENES[o.scene]
    n = o.samples or n
    check(o, n)
    prepare(o.out, o.force)
    t = time.time()
    s = Scene(o.out, o.scene, about, n, o)
    fn(s)
    with open(os.path.join(o.out, "truth.json")) as f:
        tot = json.load(f)["totals"]
    print(f"{o.scene}: {tot['rows']} rows, {tot['files']} files, {tot['no_file']} rows without a file, "
          f"{tot['present_not_ok']} files not ok, redo {tot['redo']}, {tot['bytes'] / 1e6:.1f} MB in {time.time() - t:.1f} s")


if __name__ == "__main__":
    main()

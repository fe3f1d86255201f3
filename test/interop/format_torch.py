"""The torch side of format-torch.test.ts: saves objects for our reader, and loads our writer's files.

format_torch.py save FOLDER      writes the cases and cases.json (what they hold, bytes in base64)
format_torch.py load FILE...     prints for each what torch.load gives, as one JSON list
"""
import base64
import collections
import ctypes
import json
import os
import sys

import torch

NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32",
         torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL", torch.complex64: "C64"}


def tell(t):
    """What a tensor is, with its elements' bytes in row-major order."""
    flat = t.detach().contiguous().clone()
    data = ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()) if flat.numel() else b""
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "stride": list(t.stride()), "contiguous": t.is_contiguous(),
            "data": base64.b64encode(data).decode()}


def save(folder):
    torch.manual_seed(5)
    base = torch.randn(6, 8)
    sample = {"input_ids": torch.arange(300), "loss_mask": torch.ones(300, dtype=torch.bool),
              "aux_hidden_state": torch.randn(1, 300, 24).to(torch.bfloat16), "hidden_state": torch.randn(1, 300, 8).to(torch.bfloat16)}
    cases = {
        "sample": (sample, sample),
        "dtypes": (o := {n: torch.arange(7).to(d) for d, n in NAMES.items()}, o),
        "views": (o := {"whole": base, "turned": base.t(), "part": base[2:4, 1:5], "row": base[3], "step": base[::2]}, o),
        "empty": (o := {"none": torch.empty(0), "no rows": torch.empty(1, 0, 4), "scalar": torch.tensor(2.5)}, o),
        "nested": ({"outer": {"inner": [base, (base[0], 3)]}, "id": "c-1"},
                   {"outer/inner/0": base, "outer/inner/1/0": base[0]}),
        "ordered": (o := collections.OrderedDict(b=torch.ones(2), a=torch.zeros(3)), o),
        "parameter": (o := {"w": torch.nn.Parameter(torch.randn(2, 2))}, o),
        "lone": (base, {"": base}),
        "many": (o := {"t%d" % k: torch.full((k % 5,), k) for k in range(300)}, o),
        "wide": (o := {"x": torch.zeros(70000, 2, dtype=torch.int8)}, o),
    }
    told = []
    for name, (obj, tensors) in cases.items():
        torch.save(obj, os.path.join(folder, name + ".pt"))
        told.append({"name": name, "tensors": {k: tell(t) for k, t in tensors.items()}})
    with open(os.path.join(folder, "object.pt"), "wb") as f:
        torch.save(sample, f)
    torch.save(sample, os.path.join(folder, "legacy.pt"), _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 2), os.path.join(folder, "module.pt"))
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump({"torch": torch.__version__, "cases": told}, f)


def load(paths):
    out = []
    for p in paths:
        plain, only = (torch.load(p, map_location="cpu", weights_only=w) for w in (False, True))
        told, again = ([{"name": k, **tell(t)} for k, t in d.items()] for d in (plain, only))
        assert told == again, "weights_only gives other tensors"
        out.append(told)
    print(json.dumps(out))


{"save": lambda a: save(a[0]), "load": load}[sys.argv[1]](sys.argv[2:])

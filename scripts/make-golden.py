#!/usr/bin/env python3
"""Make test/interop/golden: files of a current torch and safetensors, which Debian's torch cannot write.

  python3 scripts/make-golden.py FOLDER [OURS...]

Needs torch 2.7 or newer and safetensors. Writes small files and golden.json, which says what each holds.
OURS are files of our writers; each is loaded by torch.load (weights_only, and memory-mapped) or
safetensors, and what was found in it is printed.
"""
import base64
import ctypes
import json
import os
import sys

import safetensors
import safetensors.torch
import torch

NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32",
         torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL", torch.complex64: "C64", torch.uint16: "U16",
         torch.uint32: "U32", torch.uint64: "U64", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}


def tell(t):
    flat = t.detach().contiguous().clone()
    data = ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()) if flat.numel() else b""
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "stride": list(t.stride()), "data": base64.b64encode(data).decode()}


def main(folder, ours):
    torch.manual_seed(5)
    base = torch.randn(6, 8)
    sample = {"input_ids": torch.arange(20), "loss_mask": torch.ones(20, dtype=torch.bool),
              "aux_hidden_state": torch.randn(1, 20, 12).to(torch.bfloat16), "hidden_state": torch.randn(1, 20, 4).to(torch.bfloat16)}
    dtypes = {n: torch.arange(6).to(d) for d, n in NAMES.items()}
    twelve = {"t%d" % k: torch.full((k % 4,), k) for k in range(12)}
    cases = {
        "sample": (sample, sample),
        "dtypes": (dtypes, dtypes),
        "twelve": (twelve, twelve),
        "views": (o := {"whole": base, "turned": base.t(), "part": base[2:4, 1:5]}, o),
        "nested": ({"outer": {"inner": [base, (base[0], 3)]}, "id": "c-1"}, {"outer/inner/0": base, "outer/inner/1/0": base[0]}),
        "daté": (sample, sample),
    }
    told = []
    for name, (obj, tensors) in cases.items():
        torch.save(obj, os.path.join(folder, name + ".pt"))
        told.append({"name": name + ".pt", "tensors": {k: tell(t) for k, t in tensors.items()}})
    from torch.utils.serialization import config
    config.save.compute_crc32 = False
    torch.save(sample, os.path.join(folder, "crc-off.pt"))
    config.save.compute_crc32 = True
    config.save.storage_alignment = 256
    torch.save(sample, os.path.join(folder, "aligned.pt"))
    told += [{"name": n, "tensors": {k: tell(t) for k, t in sample.items()}} for n in ("crc-off.pt", "aligned.pt")]
    plain = {k: t for k, t in dtypes.items()}
    safetensors.torch.save_file(plain, os.path.join(folder, "dtypes.safetensors"), {"format": "pt"})
    told.append({"name": "dtypes.safetensors", "tensors": {k: tell(t) for k, t in plain.items()}})
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump({"torch": torch.__version__.split("+")[0], "safetensors": safetensors.__version__, "files": told}, f, indent=1, ensure_ascii=False)
        f.write("\n")
    for path in ours:
        if path.endswith(".safetensors"):
            got = [safetensors.torch.load_file(path)]
        else:
            got = [torch.load(path, weights_only=True), torch.load(path, weights_only=True, mmap=True)]
        told = [{k: tell(t) for k, t in g.items()} for g in got]
        assert all(t == told[0] for t in told)
        print(path, json.dumps(told[0]))


main(sys.argv[1], sys.argv[2:])

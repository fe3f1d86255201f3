#!/usr/bin/env python3
"""Write files for the format tests: a JSON list of files on stdin, the files into the folder
given. One process for many files, because starting Python costs more than writing them.

  [{"out": NAME, "kind": "torch", "stem": "data_7", "layout": "2.7", "crc": true, "align": 64,
    "object": VALUE}, {"out": NAME, "kind": "safetensors", "object": {NAME: TENSOR}, "metadata": {}}]

VALUE is JSON, where {"tensor": DTYPE, "shape": [...], "data": BASE64} is a tensor, with "zeros": N
for N zero bytes in place of data, and "stride", "offset", "share" where they matter;
{"dict": [[K, V], ...]} and {"list": [...]} are themselves; {"int": TEXT} is a large number.
"""
import base64
import json
import os
import sys

from torchfile import Tensor, Zeros, pickle_of, records_of, safetensors_file, write_zip

SHARES = {}


def value(o):
    if not isinstance(o, dict):
        return o
    if "tensor" in o:
        data = Zeros(o["zeros"]) if "zeros" in o else base64.b64decode(o["data"])
        share = o.get("share")
        if share is not None:
            share = SHARES.setdefault(share, [])
        return Tensor(o["tensor"], o["shape"], data, o.get("stride"), o.get("offset", 0), share)
    if "dict" in o:
        return {value(k): value(v) for k, v in o["dict"]}
    if "list" in o:
        return [value(v) for v in o["list"]]
    return int(o["int"])


def main():
    for f in json.load(sys.stdin):
        SHARES.clear()
        with open(os.path.join(sys.argv[1], f["out"]), "wb") as out:
            obj = value(f["object"])
            if f["kind"] == "safetensors":
                out.write(safetensors_file(obj, f.get("metadata")))
                continue
            pkl, storages = pickle_of(obj)
            crc, align = f.get("crc", True), f.get("align", 64)
            write_zip(out, f["stem"], records_of(pkl, storages, f.get("layout", "2.7"), crc, align), crc, align)


main()

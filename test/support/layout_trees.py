"""The torch side of adopt-layouts.test.ts: makes trees as the tools make them, and says what is in a file.

layout_trees.py make ROWS.json     ROWS: {"rows": [{"ids", "mask", "id", "slots", "last"}], "trees": [{"layout", "paths", "dtype", …}]}
layout_trees.py tell               reads a path a line, and prints for each what it holds as one line of JSON
"""
import ctypes
import gzip
import hashlib
import json
import os
import struct
import sys

import torch

NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.int64: "I64", torch.int32: "I32", torch.bool: "BOOL"}
BACK = {name: dtype for dtype, name in NAMES.items()}


def raw(t):
    t = t.detach().contiguous().clone()
    return ctypes.string_at(t.data_ptr(), t.numel() * t.element_size())


def floats(path, shape):
    with open(path, "rb") as f:
        return torch.frombuffer(bytearray(f.read()), dtype=torch.float32).reshape(shape)


def dict_of(layout, row, dtype, options):
    ids, mask = torch.tensor(row["ids"]), torch.tensor(row["mask"])
    tokens, width = len(row["ids"]), row["width"]
    slots = floats(row["slots"], (tokens, -1, width))
    aux = slots[:, :-1].reshape(tokens, -1).to(dtype)
    normed = floats(row["last"], (tokens, width)).to(dtype)
    before = slots[:, -1].to(dtype)
    if options.get("mask"):
        mask = mask.to(BACK[options["mask"]])
    if layout == "specforge":
        return {"input_ids": ids, "loss_mask": mask, "hidden_state": normed[None], "aux_hidden_state": aux[None]}
    if layout == "patched":
        return {"aux_hidden_state": aux, "hidden_state": before, "input_ids": ids, "loss_mask": mask}
    if layout == "dflash":
        return {"input_ids": ids, "loss_mask": mask, "hidden_states": aux[None]}
    if layout == "dspark":
        return {"input_ids": ids, "loss_mask": mask, "hidden_states": aux[None], "target_last_hidden_states": normed[None]}
    if layout == "speculators":
        return {"hidden_states": slots.to(dtype), "token_ids": ids}
    if layout == "v0":
        return {"input_ids": ids, "hidden_state": aux, "loss_mask": mask, "target": before}
    if layout == "v1":
        return {"input_ids": ids, "loss_mask": mask, "hidden_states": [slots[:, k].to(dtype) for k in range(slots.shape[1])]}
    if layout == "modelopt":
        return {"input_ids": ids, "hidden_states": normed, "aux_hidden_states": aux, "loss_mask": mask, "conversation_id": row["id"]}
    if layout == "eagle":
        return {"input_ids": ids, "hidden_state": normed, "loss_mask": mask}
    if layout == "angelslim":
        return {"input_ids": ids[None], "loss_mask": mask[None], "hidden_states": aux[None], "target_hiddens": normed[None]}
    if layout == "extra":
        return {**dict_of("specforge", row, dtype, options), "inputs_embeds": normed}
    raise SystemExit("no layout " + layout)


def save(obj, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if path.endswith(".gz"):
        with gzip.open(path, "wb", compresslevel=6) as f:
            torch.save(obj, f)
    elif path.endswith(".safetensors"):
        # Wider dtypes first, then by name, as the library has it.
        order = sorted(obj, key=lambda name: (-obj[name].element_size(), name))
        at, header = 0, {}
        for name in order:
            size = obj[name].numel() * obj[name].element_size()
            header[name] = {"dtype": NAMES[obj[name].dtype], "shape": list(obj[name].shape), "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for name in order:
                f.write(raw(obj[name]))
    else:
        torch.save(obj, path)


def make(plan):
    with open(plan) as f:
        plan = json.load(f)
    for tree in plan["trees"]:
        for at, path in enumerate(tree["paths"]):
            save(dict_of(tree["layout"], plan["rows"][at], BACK[tree["dtype"]], tree), path)


def tell_value(v):
    if isinstance(v, torch.Tensor):
        return [NAMES[v.dtype], list(v.shape), hashlib.sha256(raw(v)).hexdigest()]
    return [tell_value(x) for x in v] if isinstance(v, list) else v


def tell(path):
    if path.endswith(".safetensors"):
        with open(path, "rb") as f:
            (length,) = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(length))
            data = f.read()
        return [[k, [h["dtype"], h["shape"], hashlib.sha256(data[slice(*h["data_offsets"])]).hexdigest()]] for k, h in header.items()]
    with (gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")) as f:
        return [[k, tell_value(v)] for k, v in torch.load(f, map_location="cpu", weights_only=True).items()]


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        for line in sys.stdin:
            print(json.dumps(tell(line.rstrip("\n"))), flush=True)

#!/usr/bin/env python3
"""Small files by torch.save in all its formats, for tests/test_weights.cpp.  Needs PyTorch; made with 2.13.0.

    python3 tests/golden/torch_files.py > tests/golden/torch_files.h
"""
import gzip
import io
import textwrap
from collections import OrderedDict

import torch


def every_type():
    types = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
             "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
    return {name: torch.tensor([0, 1, 100], dtype=dtype) for name, dtype in types.items()}


def views():
    base = torch.arange(24, dtype=torch.float32)
    return {"whole": base.view(2, 3, 4), "transposed": base.view(4, 6).t(), "tail": base[20:], "every third": base[1::3],
            "permuted": base.view(2, 3, 4).permute(2, 0, 1)[1:, :, ::2], "expanded": base[5:6].expand(2, 3),
            "scalar": base[7], "empty": base[:0].view(0, 5), "parameter": torch.nn.Parameter(base[3:5])}


def checkpoint():  # as a training script that knows nn.DataParallel leaves it
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.fill_(i + 0.5)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    state = OrderedDict(("module." + k, v) for k, v in net.state_dict().items())
    return {"epoch": 161, "best": 91.25, "arch": "resnet", "seed": 2**64 - 1, "amp": True, "scheduler": None,
            "negative": -5, "far": -2**40, "optimizer": sgd.state_dict(), "model": {"state_dict": state}}


def saved(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


FILES = {
    "TypesZip": (every_type(), {}),
    "TypesLegacy": (every_type(), {"_use_new_zipfile_serialization": False, "pickle_protocol": 4}),
    "ViewsZip": (views(), {}),
    "ViewsLegacy": (views(), {"_use_new_zipfile_serialization": False}),
    "CheckpointZip": (checkpoint(), {"pickle_protocol": 5}),
    "CheckpointLegacy": (checkpoint(), {"_use_new_zipfile_serialization": False}),
}
print(f"// torch_files.h -- made by tests/golden/torch_files.py with PyTorch {torch.__version__.split('+')[0]}: gzip files, in hexadecimal digits.")
print("#pragma once\n\nnamespace golden {\n")
for name, (value, options) in FILES.items():
    packed = gzip.compress(saved(value, **options), 9, mtime=0)
    print(f"const char k{name}[] =")
    print("\n".join(f'    "{line}"' for line in textwrap.wrap(packed.hex(), 112)) + ";")
print("\n}  // namespace golden")

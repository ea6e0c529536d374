#!/usr/bin/env python3
"""Small valid files for a fuzz target to start from.  usage: tests/fuzz/seeds.py fuzz_npy FOLDER

Written by Python's own zipfile, gzip, json, pickle, zlib and struct (images by Pillow), so they are also a second opinion on what
the formats look like.
"""
import collections
import gzip
import io
import json
import pathlib
import pickle
import re
import struct
import sys
import types
import unittest.mock
import zipfile
import zlib


def npy(descr, shape, data, fortran=False, version=1):
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    size = struct.calcsize("<H" if version == 1 else "<I")
    header += b" " * (63 - (8 + size + len(header)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


def npz(method, arrays, comment=b"", **options):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        z.comment = comment
        for name, data in arrays.items():
            entry = zipfile.ZipInfo(name + ".npy")  # of 1980: the same bytes every time
            entry.compress_type = method
            with z.open(entry, "w", **options) as f:
                f.write(data)
    return out.getvalue()


def safetensors(tensors, metadata=None, data=b""):
    header = {} if metadata is None else {"__metadata__": metadata}
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def idx(shape, data):
    return bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", d) for d in shape) + data


# What torch.save writes, without PyTorch: a tensor is a call of _rebuild_tensor_v2 on the id of a storage.
STORAGES = {"0": ("FloatStorage", 4, struct.pack("<6f", *range(6))), "1": ("LongStorage", 8, struct.pack("<q", 9))}
Tensor = collections.namedtuple("Tensor", "key offset shape strides")
Storage = collections.namedtuple("Storage", "key")


def torch_pickle(protocol=2, legacy=False):
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for kind, _, _ in STORAGES.values():
        setattr(torch, kind, type(kind, (), {"__module__": "torch"}))
    exec("def _rebuild_tensor_v2(): pass", utils.__dict__)

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if not isinstance(value, Storage):
                return None
            kind, size, data = STORAGES[value.key]
            return ("storage", getattr(torch, kind), value.key, "cpu", len(data) // size) + ((None,) if legacy else ())

        def reducer_override(self, value):
            if not isinstance(value, Tensor):
                return NotImplemented
            hooks = collections.OrderedDict()
            return utils._rebuild_tensor_v2, (Storage(value.key), value.offset, value.shape, value.strides, False, hooks)

    out = io.BytesIO()
    tensors = collections.OrderedDict({"module.w": Tensor("0", 0, (3, 2), (1, 3)), "module.n": Tensor("1", 0, (), ())})
    with unittest.mock.patch.dict(sys.modules, {"torch": torch, "torch._utils": utils}):  # pickle looks names up
        Pickler(out, protocol).dump({"epoch": 7, "state_dict": tensors})
    return out.getvalue()


def torch_zip(data_pkl, storages, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        entries = {"data.pkl": data_pkl, "byteorder": b"little", "version": b"3\n"}
        entries.update({"data/" + key: data for key, (_, _, data) in storages.items()})
        for name, data in entries.items():
            z.writestr(zipfile.ZipInfo("archive/" + name), data, method)
    return out.getvalue()


def torch_legacy(object_pkl, storages, protocol=2):
    start = [0x1950a86a20f9469cfc6c, 1001, {"protocol_version": 1001, "little_endian": True}]
    return b"".join([pickle.dumps(value, protocol) for value in start] + [object_pkl, pickle.dumps(list(storages), protocol)] +
                    [struct.pack("<q", len(data) // size) + data for _, size, data in storages.values()])


TFJS_DATA = struct.pack("<4fi", 1, 2, 3, 4, -7)


def tfjs_model(paths, topology=None):
    weights = [{"name": "a/kernel", "shape": [2, 2], "dtype": "float32"}, {"name": "n", "shape": [], "dtype": "int32"}]
    return json.dumps({"format": "layers-model", "modelTopology": topology,
                       "weightsManifest": [{"paths": paths, "weights": weights}]}).encode()


def fuzz_npy():
    yield npy("<f4", (2, 3), struct.pack("<6f", *range(6)))
    yield npy(">f8", (3, 2), struct.pack(">6d", *range(6)), fortran=True)
    yield npy("<i8", (2,), struct.pack("<2q", 1, -1), version=2)
    yield npy("<f2", (1, 1, 2), b"\x00\x3c\x00\x7c", version=3)
    yield npy("|b1", (), b"\x01")
    yield npy([("a", "<f4"), ("b", "<i4", (2,))], (0,), b"")
    arrays = {"features": npy("<f4", (2, 2), struct.pack("<4f", *range(4))), "labels": npy("|u1", (2,), b"\0\1")}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield npz(method, arrays)
        yield npz(method, arrays, comment=b"a comment", force_zip64=True)


def fuzz_safetensors():
    yield safetensors({})
    yield safetensors({"w": ("F32", [2, 2], struct.pack("<4f", *range(4))), "n": ("I64", [], struct.pack("<q", 7))},
                      {"schema": "seed/1"})
    yield safetensors({"h": ("F16", [2], b"\x00\x3c\x00\x7c"), "b": ("BF16", [1], b"\x80\x3f"), "e": ("BOOL", [0], b""),
                       "u": ("U8", [3], b"abc"), "i": ("I16", [1], b"\0\0")})


def fuzz_idx():
    files = [idx((2, 2, 3), bytes(range(12))), idx((4,), b"\0\1\2\3"), idx((0, 28, 28), b"")]
    yield from files
    yield from (gzip.compress(f, level, mtime=0) for f in files for level in (0, 9))


def fuzz_pickle():
    for protocol in (2, 3, 4, 5):
        yield torch_pickle(protocol)
        yield pickle.dumps(["text", 1, 2**20, -2**40, 2**70, 0.5, None, True, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {}], protocol)


def fuzz_torch():
    for protocol in (2, 4):
        yield torch_zip(torch_pickle(protocol), STORAGES)
        yield torch_legacy(torch_pickle(protocol, legacy=True), STORAGES, protocol)


def fuzz_tfjs():  # model.json, a zero byte, and the bytes of every file that it names
    yield tfjs_model(["w.bin"]) + b"\0" + TFJS_DATA
    yield tfjs_model(["a.bin", "b.bin"], {"layers": [{"name": "a"}]}) + b"\0" + TFJS_DATA[:10]


def fuzz_device():
    yield from (b"auto", b"cpu", b"cuda", b"cuda:0", b"cuda:12")


def fuzz_image():
    """The small files of tests/golden/images.h, and what a decoder only meets in old files."""
    golden = (pathlib.Path(__file__).parent.parent / "golden/images.h").read_text()
    for body in re.findall(r'{"\w+",\s+((?:"[0-9a-f]+"\s*)+),', golden):
        yield bytes.fromhex("".join(re.findall(r"[0-9a-f]{2,}", body)))
    yield b"P5 # grey\n2 1 255\nab"
    yield b"BM" + struct.pack("<IIIIHHHH", 34, 0, 26, 12, 2, 1, 1, 24) + bytes(8)
    rows = zlib.compress(b"".join(b"\0" + bytes(range(6)) for _ in range(2)))
    for interlaced in (0, 1):
        header = struct.pack(">IIBBBBB", 3, 2, 16, 0, 0, 0, interlaced)
        chunks = ((b"IHDR", header), (b"tRNS", b"\0\1"), (b"IDAT", rows), (b"IEND", b""))
        yield b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in chunks)


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(globals()[name]()):
        (folder / f"seed{i}").write_bytes(data)


if __name__ == "__main__":
    main()

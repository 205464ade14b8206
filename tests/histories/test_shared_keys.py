"""The folder of keys: ended at any moment, and shared by servers that start at once, it holds one authority."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from dashpot.runtime.api.auth import certificates
from dashpot.runtime.api.auth.certificates import Pki, PkiError, write_private

_MAKE = """
import sys
from pathlib import Path
from dashpot.runtime.api.auth.certificates import Pki
pki = Pki.load_or_create(Path(sys.argv[1]))
pki.server_context([sys.argv[2]])
print(pki.ca.decode() + pki.admin().certificate.decode() + str(pki.jwks()))
"""


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("writes", range(9))
def test_ended_while_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    left = [writes]

    def write(path: Path, data: bytes) -> None:
        if path.parent == tmp_path:
            if not left[0]:
                raise Killed
            left[0] -= 1
        write_private(path, data)

    def begin() -> Pki:
        pki = Pki.load_or_create(tmp_path)
        pki.server_context(["127.0.0.1"])
        pki.admin()
        return pki

    with monkeypatch.context() as patch:
        patch.setattr(certificates, "write_private", write)
        try:
            begin()
        except Killed:
            pass
        else:
            assert writes == 8  # a mark, two of the authority, the key of tokens, two pairs
    pki = begin()
    for name in ("server", "admin"):
        made = x509.load_pem_x509_certificate((tmp_path / f"{name}.crt").read_bytes())
        key = serialization.load_pem_private_key((tmp_path / f"{name}.key").read_bytes(), None)
        assert made.public_key() == key.public_key()
    assert begin().ca == pki.ca
    assert begin().jwks() == pki.jwks()


def test_a_lost_key_is_told(tmp_path: Path) -> None:
    """Not every folder with half an authority was left by a process that ended."""
    Pki.load_or_create(tmp_path)
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(PkiError, match=r"has ca\.key but no ca\.crt"):
        Pki.load_or_create(tmp_path)


def test_made_by_many_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    processes = [
        subprocess.Popen([sys.executable, "-c", _MAKE, str(folder), f"10.0.0.{n}"], stdout=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    told = {process.communicate()[0] for process in processes}
    assert all(process.returncode == 0 for process in processes)
    assert len(told) == 1

"""The cluster's own authority: one CA, the certificates it gives, and the key that signs service-account tokens.

All lies in one folder, keys readable by the owner alone, and is used again at the next start.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import ipaddress
import os
import ssl
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import define, frozen
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Object = dict[str, Any]

SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
)
"""What every server certificate is for; 10.96.0.1 is the first address of the default Service range."""

CA_SECONDS = 10 * 365 * 24 * 3600
LEAF_SECONDS = 365 * 24 * 3600
RENEW_SECONDS = 30 * 24 * 3600
"""A kept certificate with less than this left is made anew at a start."""
_SKEW = timedelta(minutes=5)
_MAKING = ".making"
"""There while the CA's two files are written: a process that ended between them leaves no authority, but no riddle."""
_NAME_LIMIT = 64
_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class PkiError(Exception):
    """Keys or certificates that cannot be read, written or used; the text names the file and the way out."""


@frozen
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


@frozen
class SigningKey:
    """The key of service-account tokens. `kid` is the base64url SHA-256 of the public key's DER, as upstream's is."""

    private: ec.EllipticCurvePrivateKey
    kid: str

    def jwk(self) -> Object:
        """The public half as a JSON Web Key."""
        numbers = self.private.public_key().public_numbers()
        return {
            "use": "sig",
            "kty": "EC",
            "kid": self.kid,
            "crv": "P-256",
            "alg": "ES256",
            "x": _b64url(numbers.x.to_bytes(32, "big")),
            "y": _b64url(numbers.y.to_bytes(32, "big")),
        }


def _b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _subject(common: str, groups: Sequence[str] = ()) -> x509.Name:
    for name in (common, *groups):
        if not name or len(name) > _NAME_LIMIT:
            raise PkiError(f"a name in a certificate has 1 to {_NAME_LIMIT} characters: {name!r}")
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def alternative_names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    """DNS names and IP addresses as an extension, each once."""
    found: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            try:
                found.append(x509.DNSName(name))
            except ValueError:
                raise PkiError(f"{name!r} is neither an address nor a host name") from None
    return x509.SubjectAlternativeName(found)


def _usage(**on: bool) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: on.get(name, False) for name in _USAGES})


def write_private(path: Path, data: bytes) -> None:
    """Writes a file that only its owner can read, all at once; PkiError if it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise PkiError(f"cannot write {path}: {error.strerror or error}") from None


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PkiError(f"cannot read {path}: {error.strerror or error}") from None


@define(eq=False)
class Pki:
    """The authority of one data directory."""

    folder: Path
    signing: SigningKey
    _ca: x509.Certificate
    _ca_key: ec.EllipticCurvePrivateKey

    @classmethod
    def load_or_create(cls, folder: Path) -> Pki:
        """Reads the authority of a folder, or makes it (some milliseconds); PkiError if a file is damaged."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise PkiError(f"cannot make {folder}: {error.strerror or error}") from None
        with _alone(folder):
            ca, key = _load_ca(folder)
            return cls(folder, _load_signing(folder), ca, key)

    @property
    def ca(self) -> bytes:
        """The CA's certificate, PEM: what clients trust, and the client CA of the server."""
        return self._ca.public_bytes(serialization.Encoding.PEM)

    def jwks(self) -> Object:
        """The public keys of service-account tokens: `{"keys": [...]}`."""
        return {"keys": [self.signing.jwk()]}

    def server(self, names: Sequence[str] = ()) -> Pair:
        """The server's certificate, kept in the folder; for SERVER_NAMES and `names`."""
        wanted = alternative_names((*SERVER_NAMES, *names))
        return self._kept("server", _subject("kube-apiserver"), wanted)

    def admin(self) -> Pair:
        """The certificate of kubernetes-admin in system:masters, kept in the folder."""
        return self._kept("admin", _subject("kubernetes-admin", ("system:masters",)), None)

    def client(self, user: str, groups: Sequence[str] = (), seconds: int = LEAF_SECONDS) -> Pair:
        """A new client certificate: CN is the user, each O a group."""
        return self._issue(_subject(user, groups), None, seconds)

    def sign_public(
        self,
        public: Any,
        subject: x509.Name,
        *,
        seconds: int = LEAF_SECONDS,
        now: float | None = None,
        server: bool = False,
        encipher: bool = False,
        names: x509.SubjectAlternativeName | None = None,
    ) -> x509.Certificate:
        """A certificate for a public key; never longer than the CA's own. `now` in seconds since 1970."""
        start = datetime.fromtimestamp(time.time() if now is None else now, UTC)
        end = min(start + timedelta(seconds=seconds), self._ca.not_valid_after_utc)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        issuer = self._ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._ca.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start - _SKEW)
            .not_valid_after(max(end, start + timedelta(seconds=1)))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True, key_encipherment=encipher), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._ca_key, hashes.SHA256())

    def server_context(self, names: Sequence[str] = ()) -> ssl.SSLContext:
        """TLS for the server: its certificate, and client certificates of this CA if a client has one."""
        pair = self.server(names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.ca.decode())
        with tempfile.TemporaryDirectory() as place:
            # not from the folder: another server may be putting a certificate for its own names there
            both = Path(place) / "server.pem"
            write_private(both, pair.certificate + b"\n" + pair.key)
            context.load_cert_chain(both)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def client_context(self, name: str = "") -> ssl.SSLContext:
        """TLS for a client that trusts this CA; with the kept certificate `name` (admin) if it is given."""
        context = ssl.create_default_context(cadata=self.ca.decode())
        if name:
            context.load_cert_chain(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        return context

    def _issue(self, subject: x509.Name, names: x509.SubjectAlternativeName | None, seconds: int) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        made = self.sign_public(key.public_key(), subject, seconds=seconds, server=names is not None, names=names)
        return Pair(made.public_bytes(serialization.Encoding.PEM), key_pem(key))

    def _kept(self, name: str, subject: x509.Name, names: x509.SubjectAlternativeName | None) -> Pair:
        """The pair in the folder if it is of this CA, for these names, and has time left; else a new one."""
        with _alone(self.folder):
            certificate, key = _read(self.folder / f"{name}.crt"), _read(self.folder / f"{name}.key")
            if certificate and key and self._good(Pair(certificate, key), subject, names):
                return Pair(certificate, key)
            made = self._issue(subject, names, LEAF_SECONDS)
            write_private(self.folder / f"{name}.key", made.key)
            write_private(self.folder / f"{name}.crt", made.certificate)
            return made

    def _good(self, pair: Pair, subject: x509.Name, names: x509.SubjectAlternativeName | None) -> bool:
        try:
            found = x509.load_pem_x509_certificate(pair.certificate)
            found.verify_directly_issued_by(self._ca)
            if serialization.load_pem_private_key(pair.key, None).public_key() != found.public_key():
                return False  # a process that ended between the two writes
            has = None
            if names is not None:
                has = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        if found.subject != subject or (names is not None and (has is None or not set(names) <= set(has))):
            return False
        left = found.not_valid_after_utc - datetime.now(UTC)
        return left.total_seconds() > RENEW_SECONDS


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process makes keys in the folder meanwhile: servers that share one authority may start at once."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise PkiError(f"cannot read {folder}: {error.strerror or error}") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _load_ca(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    if (folder / _MAKING).exists():
        return _make_ca(folder)
    certificate, key = _read(folder / "ca.crt"), _read(folder / "ca.key")
    if certificate is None and key is None:
        return _make_ca(folder)
    if certificate is None or key is None:
        there, gone = ("ca.key", "ca.crt") if certificate is None else ("ca.crt", "ca.key")
        raise PkiError(f"{folder} has {there} but no {gone}: put it back, or remove both to begin a new authority")
    private = _load_key(folder / "ca.key", key)
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        raise PkiError(f"{folder / 'ca.crt'} is damaged: put it back, or remove ca.crt and ca.key") from None
    if found.public_key() != private.public_key():
        raise PkiError(f"ca.crt and ca.key in {folder} do not belong together: put the right one back, or remove both")
    if found.not_valid_after_utc < datetime.now(UTC):
        raise PkiError(f"{folder / 'ca.crt'} has expired: remove ca.crt and ca.key to begin a new authority")
    return found, private


def _load_key(path: Path, data: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        raise PkiError(f"{path} is damaged: put it back, or remove it to begin anew") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise PkiError(f"{path} is no P-256 key")
    return key


def _make_ca(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities must differ in name, too: TLS finds an issuer by its name.
    name = _subject(f"dashpot-ca-{x509.random_serial_number() % 0xFFFFFFFF:08x}")
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(seconds=CA_SECONDS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True, key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_private(folder / _MAKING, b"")
    write_private(folder / "ca.key", key_pem(key))
    write_private(folder / "ca.crt", made.public_bytes(serialization.Encoding.PEM))
    try:
        (folder / _MAKING).unlink()
    except OSError as error:
        raise PkiError(f"cannot write in {folder}: {error.strerror or error}") from None
    return made, key


def _load_signing(folder: Path) -> SigningKey:
    path = folder / "sa.key"
    data = _read(path)
    if data is None:
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(path, key_pem(key))
    else:
        key = _load_key(path, data)
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return SigningKey(key, _b64url(hashlib.sha256(public).digest()))

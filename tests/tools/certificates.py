"""Certificates of an authority that lasts as long as the test, made by openssl."""

import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


class Authority:
    """`truststore` is a PEM file with its certificate."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._key = folder / "authority.key"
        self.truststore = folder / "authority.pem"
        _openssl("req", "-x509", *_KEY, "-noenc", "-subj", "/CN=authority", "-days", "2",
                 *("-keyout", self._key, "-out", self.truststore))  # fmt: skip

    def keystore(self, name: str, alternative: str, password: str | None = None) -> Path:
        """A PEM file with a key, encrypted if there is a password, and its certificate for CN=`name`."""
        key, request, certificate = (self._folder / f"{name}.{kind}" for kind in ("key", "request", "certificate"))
        secret = ("-noenc",) if password is None else ("-passout", f"pass:{password}")
        extension = f"subjectAltName={alternative}"
        _openssl("req", *_KEY, *secret, "-subj", f"/CN={name}", "-addext", extension,
                 *("-keyout", key, "-out", request))  # fmt: skip
        _openssl("x509", "-req", "-in", request, "-CA", self.truststore, "-CAkey", self._key, "-CAcreateserial",
                 *("-copy_extensions", "copy", "-days", "2", "-out", certificate))  # fmt: skip
        made = self._folder / f"{name}.pem"
        made.write_text(key.read_text() + certificate.read_text())
        return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)

"""The file of static tokens: lines `token,user,uid,"group1,group2"`.

Source: k8s.io/apiserver pkg/authentication/token/tokenfile, release 1.34.
"""

from __future__ import annotations

import csv
from pathlib import Path

from dashpot.runtime.api.exchange import User

LIMIT = 16 << 20
"""Bytes of a token file: a quarter of a million users."""


class TokenFileError(ValueError):
    """A token file that cannot be read or understood; the text names file, line and what is missing."""


def read_tokens(path: Path) -> dict[str, User]:
    """Users by token; empty lines are skipped, a token named twice is the later one's."""
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT + 1)
        if len(raw) > LIMIT:
            raise TokenFileError(f"{path} is larger than {LIMIT >> 20} MiB: name a file of tokens")
        text = raw.decode("utf-8")
    except OSError as error:
        raise TokenFileError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TokenFileError(f"{path} is no UTF-8 text") from None
    found: dict[str, User] = {}
    reader = csv.reader(text.splitlines(), skipinitialspace=True)
    try:
        for row in reader:
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3:
                raise TokenFileError(f"{path}:{reader.line_num}: a line has at least token, user name and user uid")
            token, name, uid = row[0].strip(), row[1].strip(), row[2].strip()
            if not token or not name:
                raise TokenFileError(f"{path}:{reader.line_num}: token and user name must not be empty")
            groups = tuple(group.strip() for group in row[3].split(",") if group.strip()) if len(row) > 3 else ()
            found[token] = User(name, groups, uid)
    except csv.Error as error:
        raise TokenFileError(f"{path}:{reader.line_num}: {error}") from None
    return found

"""Where compiled kernels are kept between processes, and what may be read back from there.

Numba keeps compiled code as pickles. Whoever can write these can run code as the user who reads
them, and bytes that were cut or changed can end the process. Hence:

* every file begins with the SHA-256 of the bytes that follow, which is compared before anything
  is unpickled; a file that does not match is compiled anew;
* folders and files are read only if they belong to the user and nobody else can write to them;
* whatever goes wrong with a file or a folder means that a kernel is compiled, not that a fit fails.

Kernels that came with the package (`cavity._numba.prebuilt`) are read if the user's folder has
none; they are the installer's, as the package is, and have a checksum each like all others.

Numba's own cache does not notice that a function called from another file has changed. The
folder here is named by a stamp that hashes every kernel source of the package, and entries for
modules outside it by a stamp of their text as well, so an edit anywhere invalidates them all.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import llvmlite
import numba

from cavity._numba.prebuilt import shipped_kernels
from cavity.utils.files import replacing

_PACKAGE = Path(__file__).parent.parent
_DIGEST_BYTES = hashlib.sha256().digest_size
# Stamps (states of the sources, versions of Numba) whose code is kept, the one in use included.
_KEPT_STAMPS = 3
logger = logging.getLogger("cavity")


@functools.cache
def package_stamp() -> str:
    """Digest of every kernel source of the package and of the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        of_kernels = b"_numba.jit" in text or b"cavity.interface" in text
        if of_kernels or path.parent.name == "_numba":
            digest.update(path.relative_to(_PACKAGE).as_posix().encode())
            digest.update(text)
    return digest.hexdigest()[:16]


@functools.cache
def cache_directory() -> Path | None:
    """Folder of the compiled code, or None where none can be used; one logged line says why.

    ``CAVITY_CACHE_DIR`` overrides the user's cache folder.
    """
    try:
        base = _base_folder()
        folder = base / "kernels" / package_stamp()
        _make_own(base, folder)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)  # the folder's time is that of its last use
    except OSError as error:
        say_uncached(error)
        return None
    return folder


def kernels_are_kept() -> bool:
    """Whether an earlier process left compiled code of these sources, or it came with them.

    Examples
    --------
    >>> from cavity._numba.cache import kernels_are_kept
    >>> kernels_are_kept() in (True, False)
    True
    """
    if shipped_kernels(package_stamp()) is not None:
        return True
    folder = cache_directory()
    try:
        return folder is not None and any(folder.iterdir())
    except OSError:
        return False  # removed meanwhile, by a process of other sources


def _base_folder() -> Path:
    if os.environ.get("CAVITY_CACHE_DIR"):
        return Path(os.environ["CAVITY_CACHE_DIR"]).absolute()
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except (RuntimeError, KeyError):
        raise OSError("this user has no home folder; set CAVITY_CACHE_DIR to a folder") from None
    return base / "cavity"


def _make_own(base: Path, folder: Path) -> None:
    """Make a stamp's folder, for its user alone, and let those of old stamps go."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_shared(base.stat(), base, may_be_sticky=True)
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    _refuse_shared(folder.parent.stat(), folder.parent)
    if not folder.exists():
        _remove_old_stamps(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_shared(folder.stat(), folder)


def _refuse_shared(status: os.stat_result, path: Path, may_be_sticky: bool = False) -> None:
    """Refuse a place where anybody else could put code for us to run.

    In a sticky folder, such as ``/tmp``, others cannot rename or remove what is ours.
    """
    if os.name != "posix":
        return
    sticky = may_be_sticky and status.st_mode & stat.S_ISVTX
    if status.st_uid != os.geteuid() and not (sticky and status.st_uid == 0):
        raise PermissionError(f"{path} belongs to another user; set CAVITY_CACHE_DIR to your own")
    if status.st_mode & 0o022 and not sticky:
        raise PermissionError(f"others can write to {path}; run chmod go-w on it")


def _remove_old_stamps(kernels: Path) -> None:
    """Keep the folders used last: every edit and every upgrade would else add one for good."""
    stamps = [e for e in os.scandir(kernels) if re.fullmatch("[0-9a-f]{16}", e.name)]
    for old in sorted(stamps, key=_last_use, reverse=True)[_KEPT_STAMPS - 1 :]:
        shutil.rmtree(old.path, ignore_errors=True)


def _last_use(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return 0.0  # another process removed it


_said: list[str] = []


def say_uncached(error: OSError) -> None:
    """Tell, once in a process, why compiled code is not kept."""
    if not _said:
        where = f" ({error.filename})" if error.filename else ""
        _said.append(f"Compiled kernels are not kept: {error.strerror or error}{where}.")
        logger.warning(_said[0])


class DamagedError(Exception):
    """A file of the cache is not what was written."""


def read_sealed(path: str, own: bool = True) -> bytes:
    """The bytes of a cache file after its digest, if they match it.

    A file that is to be the user's `own` is read only if nobody else could write it.
    """
    with open(path, "rb") as file:
        if own:
            _refuse_shared(os.fstat(file.fileno()), Path(path))
        whole = file.read()
    digest, data = whole[:_DIGEST_BYTES], whole[_DIGEST_BYTES:]
    if hashlib.sha256(data).digest() != digest:
        raise DamagedError(path)
    return data


def write_sealed(path: str, data: bytes) -> None:
    """Write bytes behind their digest, whole or not at all, for this user alone."""
    with replacing(path) as part:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(hashlib.sha256(data).digest())
            file.write(data)


__all__ = [
    "DamagedError",
    "cache_directory",
    "kernels_are_kept",
    "logger",
    "package_stamp",
    "read_sealed",
    "say_uncached",
    "write_sealed",
]

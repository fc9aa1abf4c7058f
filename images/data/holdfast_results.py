"""Shows data frames and charts as data in addition to pictures, under the MIME types that E2B's clients read.

A picture of Pillow that is saved to a path is shown as well, as in E2B's template.

An extension of IPython in a session's kernel; it does not know the session. IPython asks each formatter for
each object that is shown, so no library is imported here: one of its objects exists when it is.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode


class DataFrames(BaseFormatter):
    """A data frame as its columns."""

    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict, str)

    def __call__(self, obj: Any) -> Any:
        """Return its columns by name, each a list; times are ISO 8601."""
        if not _is_a("pandas", "DataFrame", obj):
            return super().__call__(obj)
        columns = obj.to_dict(orient="list")
        return {
            str(name): [each.isoformat() if _is_a("pandas", "Timestamp", each) else each for each in values]
            for name, values in columns.items()
        }


class Charts(BaseFormatter):
    """A figure of Matplotlib, as the content of its charts."""

    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = (dict, str)

    def __call__(self, obj: Any) -> Any:
        """Return its charts; nothing for a figure that cannot be read."""
        if not _is_a("matplotlib.figure", "Figure", obj):
            return super().__call__(obj)
        try:
            from e2b_charts import chart_figure_to_dict

            return chart_figure_to_dict(obj)
        except Exception:  # noqa: BLE001 - its picture is shown all the same
            return None


class SavedPictures(MetaPathFinder):
    """Finds Pillow's image module, once, and shows saved pictures."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of this one module."""
        if name != "PIL.Image":
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        if found is None or found.loader is None:
            return found
        run = found.loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            _show_what_is_saved(module)

        found.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return found


def _show_what_is_saved(module: Any) -> None:
    from IPython.core import display_functions

    display: Any = display_functions.display
    save = module.Image.save

    def save_and_show(image: Any, fp: Any, *more: Any, **options: Any) -> Any:
        """Save this image under the given filename; see PIL.Image.Image.save."""
        if isinstance(fp, str):
            display(image)
        return save(image, fp, *more, **options)

    module.Image.save = save_and_show


def _is_a(module: str, name: str, obj: Any) -> bool:
    """Return whether an object's class belongs to a module, without importing the module."""
    return isinstance(obj, getattr(sys.modules.get(module), name, ()))


def load_ipython_extension(shell: Any) -> None:
    """Add the formatters to a kernel's shell."""
    for each in (DataFrames, Charts):
        made = each(parent=shell.display_formatter)
        shell.display_formatter.formatters[made.format_type] = made
    if "PIL.Image" not in sys.modules:
        sys.meta_path.insert(0, SavedPictures())

"""What jupyter_kernel_test asks of any kernel, of the kernel of a session; run by pytest of its environment.

The samples are those that its authors test ipykernel with.
"""

from __future__ import annotations

import os
from typing import Any

import jupyter_kernel_test


class SessionKernelTests(jupyter_kernel_test.KernelTests):
    """The kernel of the session, with a sample for each of the tests."""

    kernel_name = os.environ["HOLDFAST_SPEC"]
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_execute_result: list[dict[str, Any]] = [{"code": "1+2+3", "result": "6"}]  # noqa: RUF012
    code_display_data: list[dict[str, Any]] = [  # noqa: RUF012
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))",
            "mime": "text/html",
        },
        {
            "code": "from IPython.display import Math, display; display(Math('\\frac{1}{2}'))",
            "mime": "text/latex",
        },
    ]
    completion_samples: list[dict[str, Any]] = [{"text": "zi", "matches": {"zip"}}]  # noqa: RUF012
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]  # noqa: RUF012
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]  # noqa: RUF012
    invalid_code_samples = ["import = 7q"]  # noqa: RUF012
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"

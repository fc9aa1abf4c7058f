"""Makes the blocking client, which is not in Git, before any build; pyproject.toml has all the rest."""

import subprocess
import sys

from setuptools import setup

subprocess.run([sys.executable, "setup/blocking"], check=True)
setup()

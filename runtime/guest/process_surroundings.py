"""The parts of the supervisor that run and attribute processes, for shells, kernels, jobs and programs.

It names them and does nothing with them.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.layout import Layout
from holdfast.runtime.guest.pulse.deaths import Notice
from holdfast.runtime.guest.pulse.origins import Origins


class ProcessSurroundings(NamedTuple):
    """Files of the session, the account it runs as, and those who collect, attribute and report an end."""

    layout: Layout
    account: UserAccount
    reaper: Reaper
    origins: Origins
    notice: Notice

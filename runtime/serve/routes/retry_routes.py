"""The path of many runs from one snapshot."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends

from holdfast.base.value_classes import as_table
from holdfast.runtime.flaky.spread import Spread
from holdfast.runtime.guest_rpc.patience import Patience
from holdfast.runtime.serve.answers import ERRORS
from holdfast.runtime.serve.callers import ApiCaller, caller
from holdfast.runtime.serve.models.answer_models import SpreadAnswer
from holdfast.runtime.serve.models.base_models import Ref
from holdfast.runtime.serve.models.session_models import RetryRequest
from holdfast.runtime.serve.routes.api_router import api_router

router = api_router(prefix="/v1/snapshots", tags=["snapshots"], responses=ERRORS)
From = Annotated[ApiCaller, Depends(caller)]


@router.post("/{snapshot}/retry")
async def retry(who: From, snapshot: Ref, body: RetryRequest) -> SpreadAnswer:
    """Run a command many times from a snapshot, each in a copy of its own, and compare how they end.

    A client that leaves ends all runs, and no copy is left of them.
    """
    how = body.model_dump()

    def work(patience: Patience) -> SpreadAnswer:
        spread = who.holdfast().snapshot(snapshot).retry(patience=patience, **how)
        return SpreadAnswer.model_validate(spread_table(spread))

    return await who.while_there(None, work)


def spread_table(spread: Spread) -> dict[str, Any]:
    """Return the fields of the answer. The outputs of all runs together could have hundreds of megabytes."""
    shown = {kind.first.number for kind in spread.kinds}
    runs = [
        {**as_table(run), "status": run.status, "output": list(run.output) if run.number in shown else []}
        for run in spread.runs
    ]
    return {**spread.as_dict(), "compare_output": spread.compare_output, "runs": runs}

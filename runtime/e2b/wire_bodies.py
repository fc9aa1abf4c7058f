"""Bodies of this wire: names in camel case; what else a client says is ignored, as in Proto3 JSON.  Pure."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from holdfast.errors import InvalidArgument


class WireBody(BaseModel):
    """A body of a request or an answer."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")

    @classmethod
    def read(cls, given: Any) -> Self:
        """Read a message of a stream.

        Raises:
            InvalidArgument: it has another form.
        """
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidArgument(
                f"cannot read the message: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            ) from None

    def written(self) -> dict[str, Any]:
        """Return it as JSON; what is not known is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

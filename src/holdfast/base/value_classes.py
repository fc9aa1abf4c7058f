"""Classes of values like those of `dataclasses.dataclass`, quick to load for frequent commands.

Loading `dataclasses` takes longer than starting Python, and each class that it makes as long as loading three
modules, because it compiles the methods; here they are closures. Everything else is the same: type checkers
see `dataclasses`, and its `fields`, `replace`, `asdict` and `inspect.signature` work; they load it when used.
The guest has a copy of this module: it must import nothing.

There is no inheritance, `ClassVar` or `__post_init__`: none of these classes needs it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not typing's, which would have to be loaded
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import Any


def as_table(value: Any, *without: str) -> dict[str, Any]:
    """Return the fields of a value in the forms of JSON, except for some; also for `dataclasses`.

    Values in it tell themselves by `as_dict`, if they have that.
    """
    return {name: _in_json(getattr(value, name)) for name in value.__match_args__ if name not in without}


def _in_json(part: Any) -> Any:
    if hasattr(part, "as_dict"):
        return part.as_dict()
    if isinstance(part, list | tuple):
        return [_in_json(each) for each in part]
    if hasattr(part, "keys"):
        return {name: _in_json(part[name]) for name in part}
    return as_table(part) if hasattr(part, "__match_args__") else part


if not TYPE_CHECKING:

    class _Field:
        """The default of a field, and how it takes part in texts and comparisons."""

        def __init__(
            self, default: Any, factory: Callable[[], Any] | None, *, shown: bool, compared: bool
        ) -> None:
            self.default, self.factory, self.shown, self.compared = default, factory, shown, compared

        def original(self) -> Any:
            import dataclasses

            with_default = (
                {"default": self.default} if self.factory is None else {"default_factory": self.factory}
            )
            return dataclasses.field(**with_default, repr=self.shown, compare=self.compared)

    def field(
        *,
        default: Any = None,
        default_factory: Callable[[], Any] | None = None,
        repr: bool = True,  # noqa: A002 - as in dataclasses
        compare: bool = True,
    ) -> Any:
        """Return the description of a field that has a default, or one that is made for each instance."""
        return _Field(default, default_factory, shown=repr, compared=compare)

    def replace(value: Any, /, **changes: Any) -> Any:
        """Return a copy of this value with some fields changed."""
        before = {name: getattr(value, name) for name in value.__match_args__ if name not in changes}
        return type(value)(**before, **changes)

    def asdict(value: Any) -> dict[str, Any]:
        """Return the fields of a value that does not hold other values."""
        return {name: getattr(value, name) for name in value.__match_args__}

    def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[type], type]:
        """Return a decorator that makes a value class, with comparison unless `eq` is false."""
        return lambda kind: _completed(kind, frozen=frozen, slots=slots, eq=eq)

    def _completed(kind: type, *, frozen: bool, slots: bool, eq: bool) -> type:
        names = tuple(kind.__annotations__)
        defaults = {name: vars(kind)[name] for name in names if name in vars(kind)}
        described = {name: one for name, one in defaults.items() if isinstance(one, _Field)}
        left_out = {"__dict__", "__weakref__", *names}
        body = {name: value for name, value in vars(kind).items() if name not in left_out}
        if slots:
            body |= {"__slots__": names}
            body |= {"__getstate__": _state_of, "__setstate__": _take_state} if frozen else {}
        else:
            body |= {
                name: one.default if name in described else one
                for name, one in defaults.items()
                if name not in described or described[name].factory is None
            }
        shown = tuple(name for name in names if name not in described or described[name].shown)

        def original() -> Any:
            return _original(kind, defaults, frozen=frozen, eq=eq)

        body |= {
            "__init__": _initializer(kind.__qualname__, names, defaults),
            "__repr__": lambda value: _shown(value, shown),
            "__match_args__": names,
            "__dataclass_fields__": _OnDemand(lambda: original().__dataclass_fields__),
            "__dataclass_params__": _OnDemand(lambda: original().__dataclass_params__),
            "__signature__": _OnDemand(lambda: _signature(original())),
        }
        if eq:
            compared = tuple(name for name in names if name not in described or described[name].compared)
            body |= _comparison(compared, frozen=frozen)
        if frozen:
            body |= {"__setattr__": _refuse, "__delattr__": _refuse}
        return type(kind)(kind.__name__, kind.__bases__, body)

    def _comparison(names: tuple[str, ...], *, frozen: bool) -> dict[str, Any]:
        def values(value: Any) -> tuple[Any, ...]:
            return tuple(getattr(value, name) for name in names)

        def equals(value: Any, other: Any) -> Any:
            return values(value) == values(other) if type(value) is type(other) else NotImplemented

        return {"__eq__": equals, "__hash__": (lambda value: hash(values(value))) if frozen else None}

    def _initializer(kind: str, names: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., None]:
        store = object.__setattr__
        defaults = {
            name: one if isinstance(one, _Field) else _Field(one, None, shown=True, compared=True)
            for name, one in defaults.items()
        }

        def __init__(self: object, /, *args: Any, **given: Any) -> None:  # noqa: N807
            if len(args) > len(names):
                raise TypeError(f"{kind}() takes {len(names)} values, but {len(args)} were given")
            for name, value in zip(names, args, strict=False):
                if name in given:
                    raise TypeError(f"{kind}() got two values for '{name}'")
                store(self, name, value)
            for name in names[len(args) :]:
                if name in given:
                    value = given.pop(name)
                elif name in defaults:
                    known = defaults[name]
                    value = known.default if known.factory is None else known.factory()
                else:
                    raise TypeError(f"{kind}() got no value for '{name}'")
                store(self, name, value)
            if given:
                raise TypeError(f"{kind}() has no '{next(iter(given))}'")

        return __init__

    def _shown(value: Any, names: tuple[str, ...]) -> str:
        pairs = (f"{name}={getattr(value, name)!r}" for name in names)
        return f"{type(value).__qualname__}({', '.join(pairs)})"

    def _refuse(_value: Any, name: str, *_new: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _state_of(value: Any) -> list[Any]:
        return [getattr(value, name) for name in value.__match_args__]

    def _take_state(value: Any, state: list[Any]) -> None:
        for name, one in zip(value.__match_args__, state, strict=True):
            object.__setattr__(value, name, one)

    class _OnDemand:
        """An attribute of a class that is made on its first use."""

        def __init__(self, make: Callable[[], Any]) -> None:
            self._make = make

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, _instance: object, owner: type) -> Any:
            made = self._make()
            setattr(owner, self._name, made)
            return made

    def _original(kind: type, defaults: dict[str, Any], *, frozen: bool, eq: bool) -> Any:
        """Return the class that `dataclasses` makes of the fields."""
        import dataclasses

        body = {
            name: value.original() if isinstance(value, _Field) else value for name, value in defaults.items()
        }
        body |= {"__annotations__": dict(kind.__annotations__), "__module__": kind.__module__, "__doc__": ""}
        return dataclasses.dataclass(frozen=frozen, eq=eq)(type(kind.__name__, (), body))

    def _signature(original: Any) -> Any:
        import inspect

        return inspect.signature(original)

"""Classes of values as `dataclasses.dataclass(frozen=True)` makes them, for what frequent commands load.

Loading `dataclasses` takes longer than starting Python, and each class that it makes as long as loading three
modules, because it compiles the methods; here they are closures. Everything else is the same: type checkers
see `dataclasses`, and `fields`, `replace`, `asdict` and `inspect.signature` work; they load it when used.

There is no inheritance, `ClassVar` or `__post_init__`: none of these classes needs it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not typing's, which would have to be loaded
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from typing import Any
else:

    class _Made:
        """The default of a field that is made for each instance."""

        def __init__(self, factory: Callable[[], Any]) -> None:
            self.factory = factory

    def field(*, default_factory: Callable[[], Any]) -> Any:
        """Return the default of a field that is made for each instance."""
        return _Made(default_factory)

    def dataclass(*, frozen: bool, slots: bool = False) -> Callable[[type], type]:
        """Return a decorator that makes a class one of frozen values."""
        if not frozen:
            raise TypeError("cannot make values that change: use dataclasses")
        return lambda kind: _completed(kind, slots=slots)

    def _completed(kind: type, *, slots: bool) -> type:
        names = tuple(kind.__annotations__)
        defaults = {name: vars(kind)[name] for name in names if name in vars(kind)}
        left_out = {"__dict__", "__weakref__", *names}
        body = {name: value for name, value in vars(kind).items() if name not in left_out}
        if slots:
            body |= {"__slots__": names, "__getstate__": _state_of, "__setstate__": _take_state}
        else:
            body |= {name: value for name, value in defaults.items() if not isinstance(value, _Made)}
        body |= {
            "__init__": _initializer(kind.__qualname__, names, defaults),
            "__repr__": _shown,
            "__eq__": _equals,
            "__hash__": lambda value: hash(_values(value)),
            "__setattr__": _refuse,
            "__delattr__": _refuse,
            "__match_args__": names,
            "__dataclass_fields__": _OnDemand(lambda: _original(kind, defaults).__dataclass_fields__),
            "__dataclass_params__": _OnDemand(lambda: _original(kind, defaults).__dataclass_params__),
            "__signature__": _OnDemand(lambda: _signature(kind, defaults)),
        }
        return type(kind)(kind.__name__, kind.__bases__, body)

    def _initializer(kind: str, names: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., None]:
        store = object.__setattr__

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
                    value = defaults[name]
                    value = value.factory() if isinstance(value, _Made) else value
                else:
                    raise TypeError(f"{kind}() got no value for '{name}'")
                store(self, name, value)
            if given:
                raise TypeError(f"{kind}() has no '{next(iter(given))}'")

        return __init__

    def _values(value: Any) -> tuple[Any, ...]:
        return tuple(getattr(value, name) for name in value.__match_args__)

    def _shown(value: Any) -> str:
        pairs = (f"{name}={getattr(value, name)!r}" for name in value.__match_args__)
        return f"{type(value).__qualname__}({', '.join(pairs)})"

    def _equals(value: Any, other: Any) -> Any:
        return _values(value) == _values(other) if type(value) is type(other) else NotImplemented

    def _refuse(_value: Any, name: str, *_new: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _state_of(value: Any) -> list[Any]:
        return list(_values(value))

    def _take_state(value: Any, state: list[Any]) -> None:
        for name, one in zip(value.__match_args__, state, strict=True):
            object.__setattr__(value, name, one)

    class _OnDemand:
        """An attribute of a class that is made when it is first read."""

        def __init__(self, make: Callable[[], Any]) -> None:
            self._make = make

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, _instance: object, owner: type) -> Any:
            made = self._make()
            setattr(owner, self._name, made)
            return made

    def _original(kind: type, defaults: dict[str, Any]) -> Any:
        """Return the class that `dataclasses` makes of the fields."""
        import dataclasses

        body = {
            name: dataclasses.field(default_factory=value.factory) if isinstance(value, _Made) else value
            for name, value in defaults.items()
        }
        body |= {"__annotations__": dict(kind.__annotations__), "__module__": kind.__module__, "__doc__": ""}
        return dataclasses.dataclass(frozen=True)(type(kind.__name__, (), body))

    def _signature(kind: type, defaults: dict[str, Any]) -> Any:
        import inspect

        return inspect.signature(_original(kind, defaults))

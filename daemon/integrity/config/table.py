"""
Immutable dataclasses whose methods are not compiled anew for each class.

``dataclass(frozen=True)`` compiles six methods for each class, which took a tenth of the time of a short command.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def table(cls: type[T]) -> type[T]:
    """Let a subclass of ``SettingsTable`` have fields."""
    return dataclass(init=False, repr=False, eq=False, match_args=False)(cls)


class SettingsTable:
    """What all tables of the configuration share."""

    def __init__(self, **values: Any) -> None:
        for one in fields(self):  # type: ignore[arg-type] # its subclasses have fields
            if one.name in values:
                value = values.pop(one.name)
            elif one.default_factory is not MISSING:
                value = one.default_factory()
            elif one.default is not MISSING:
                value = one.default
            else:
                raise TypeError(f"{type(self).__name__}: {one.name} is missing")
            object.__setattr__(self, one.name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __setattr__(self, name: str, _: object) -> None:
        raise FrozenInstanceError(name)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

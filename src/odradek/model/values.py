"""`dataclass(frozen=True, slots=True)` without its price at import.

The standard one writes and compiles six functions for each class when the module is loaded: 0.5 ms, and a broker loads
more than a hundred such classes before it can serve. Here a class costs its `type()` call; its constructor, `==` and
`hash` are compiled when they are first used. In all else it is a dataclass: `replace`, `fields`, `match`, pickling and
the type checker (which sees the standard one) know it as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    from dataclasses import MISSING, Field, FrozenInstanceError, field, replace
    from dataclasses import dataclass as _standard
    from inspect import get_annotations  # from Python 3.14 on a class makes them when asked (PEP 649)

    def dataclass(cls=None, *, frozen=False, slots=False, **options):
        """As the standard one; what is not frozen with slots is left to it."""
        if not (frozen and slots) or options:
            return _standard(cls, frozen=frozen, slots=slots, **options)
        return _frozen if cls is None else _frozen(cls)

    def _frozen(cls):
        own = {name: cls.__dict__.get(name, MISSING) for name in _instance_names(cls)}
        inherited = {}
        for base in reversed(cls.__mro__[1:]):
            inherited.update(base.__dict__.get("_own_fields", ()))
        body = {
            name: value
            for name, value in cls.__dict__.items()
            if name not in own and name not in ("__dict__", "__weakref__")
        }
        every = {**inherited, **own}
        body["__slots__"] = tuple(name for name in own if name not in inherited)
        body["__match_args__"] = tuple(every)
        body["_own_fields"] = own
        body["_all_fields"] = every
        body["__dataclass_fields__"] = _FIELDS
        for name, function in _SHARED.items():
            body.setdefault(name, function)
        made = type(cls)(cls.__name__, cls.__bases__, body)
        made.__qualname__ = cls.__qualname__
        return made

    def _instance_names(cls):
        for name, annotation in get_annotations(cls).items():
            if "ClassVar" not in str(annotation):
                yield name

    # --- compiled when first used

    def _init(self, *arguments, **named):
        _compiled(type(self), "__init__", _init, _compile_init)(self, *arguments, **named)

    def _eq(self, other):
        return _compiled(type(self), "__eq__", _eq, _compile_eq)(self, other)

    def _hash(self):
        return _compiled(type(self), "__hash__", _hash, _compile_hash)(self)

    def _compiled(cls, name, placeholder, compile):
        """What takes the placeholder's place in its class, which is one of the chain: a subclass may call it for its parent.
        Another thread may have replaced it since it was called."""
        for owner in cls.__mro__:
            found = owner.__dict__.get(name)
            if found is placeholder:
                found = compile(owner)
                found._is_compiled = True
                setattr(owner, name, found)
                return found
            if hasattr(found, "_is_compiled"):
                return found
        raise AssertionError(f"{cls}: nothing of its chain has a {name} of ours")

    def _compile_init(cls):
        """Fields are set by the setters of their slots: half the price of `object.__setattr__`."""
        parameters, body, names = [], [], {"MISSING": MISSING}
        for name, default in cls._all_fields.items():
            names[f"s_{name}"] = getattr(cls, name).__set__
            value = name
            if isinstance(default, Field):
                if default.default_factory is not MISSING:
                    names[f"f_{name}"] = default.default_factory
                    parameters.append(f"{name}=MISSING")
                    value = f"f_{name}() if {name} is MISSING else {name}"
                    body.append(f" s_{name}(self, {value})")
                    continue
                default = default.default
            if default is MISSING:
                parameters.append(name)
            else:
                names[f"d_{name}"] = default
                parameters.append(f"{name}=d_{name}")
            body.append(f" s_{name}(self, {value})")
        if hasattr(cls, "__post_init__"):
            body.append(" self.__post_init__()")
        source = f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(body or [" pass"])
        exec(source, names)
        names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
        return names["__init__"]

    def _tuple_of(who, cls):
        return "(" + "".join(f"{who}.{name}, " for name in cls._all_fields) + ")"

    def _compile_eq(cls):
        names = {}
        exec(
            "def __eq__(self, other):\n"
            " if other.__class__ is not self.__class__: return NotImplemented\n"
            f" return {_tuple_of('self', cls)} == {_tuple_of('other', cls)}",
            names,
        )
        return names["__eq__"]

    def _compile_hash(cls):
        names = {}
        exec(f"def __hash__(self):\n return hash({_tuple_of('self', cls)})", names)
        return names["__hash__"]

    # --- the same for all

    def _repr(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._all_fields)
        return f"{type(self).__qualname__}({shown})"

    def _setattr(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _delattr(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _getstate(self):
        return [getattr(self, name) for name in self._all_fields]

    def _setstate(self, state):
        for name, value in zip(self._all_fields, state, strict=True):
            object.__setattr__(self, name, value)

    class _Fields:
        """`__dataclass_fields__`, made when somebody asks: `replace`, `fields`, `is_dataclass`."""

        def __get__(self, instance, cls):
            made = cls.__dict__.get("_made_fields")
            if made is None:
                made = _standard_fields(cls)
                cls._made_fields = made
            return made

    _FIELDS = _Fields()

    def _standard_fields(cls):
        annotations = {}
        for base in reversed(cls.__mro__):
            annotations.update(get_annotations(base))
        body = {}
        for name, default in cls._all_fields.items():
            if isinstance(default, Field) and default.default_factory is not MISSING:
                body[name] = field(default_factory=default.default_factory)
            else:
                plain = default.default if isinstance(default, Field) else default
                body[name] = field() if plain is MISSING else field(default=plain)
        body["__annotations__"] = {name: annotations[name] for name in cls._all_fields}
        return _standard(type(cls.__name__, (), body)).__dataclass_fields__

    _SHARED = {
        "__init__": _init,
        "__eq__": _eq,
        "__hash__": _hash,
        "__repr__": _repr,
        "__setattr__": _setattr,
        "__delattr__": _delattr,
        "__getstate__": _getstate,
        "__setstate__": _setstate,
    }

__all__ = ["dataclass", "field", "replace"]

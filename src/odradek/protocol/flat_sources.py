"""The compiler's source, with messages as plain tuples or as objects of their class: what stands in the files of `flattening`."""

import struct
from collections.abc import Sequence
from typing import Any

from odradek.protocol.compiler import DecoderSource, EncoderSource, has_records
from odradek.protocol.fields import FIXED, Field, Struct, fields_at
from odradek.protocol.flat_form import PYTHON_TYPES, FlatForm

# Letters of struct.Struct that no name can have.
_LETTERS = str.maketrans({"?": "o"})


class _Constants:
    """Names for what a module binds: the struct of given letters is one constant, whoever uses it."""

    names: dict[str, Any]

    def packed_name(self, what: str, letters: str) -> str:
        name = f"_{what}_{letters.translate(_LETTERS)}"
        self.names[name] = f'{name} = Struct(">{letters}").{"pack" if what == "pack" else "unpack_from"}'
        return name


class TupleDecoder(_Constants, DecoderSource):
    """Fields go to variables, and these into a tuple."""

    def __init__(self, form: FlatForm, version: int) -> None:
        super().__init__(form.flat.cls, version)
        self.form = form

    def place(self, variable: str, line: Field) -> str:
        return f"{variable}_{line.name}"

    def struct(self, cls: type[Struct], variable: str) -> None:
        inline, tagged, _ = fields_at(cls, self.version)
        for line in tagged:
            kind = self.form.type_of([line])
            self.emit(f"{self.place(variable, line)}: {kind} = {absent(line)}")
        for line in inline:
            self.field(line, self.place(variable, line))
        if self.flexible:
            self.tagged_fields(tagged, variable)

    def field(self, line: Field, target: str) -> None:
        if line.tag is None and (self.version in line.nullable or line.kind == "array"):
            kind = self.form.type_of([line]).replace("Sequence[", "list[", 1)
            if self.version not in line.nullable:
                kind = kind.removesuffix(" | None")
            self.emit(f"{target}: {kind}")
        super().field(line, target)

    def row(self, cls: type[Struct], variable: str) -> str:
        """The tuple of what was read into variables."""
        values = []
        for lines in self.form.fields(cls):
            known = [line for line in lines if self.version in line.versions]
            values.append(self.place(variable, known[0]) if known else absent(lines[0]))
        comma = "," if len(values) == 1 else ""
        return f"({', '.join(values)}{comma})"

    def nested(self, line: Field, target: str) -> None:
        assert self.version not in line.nullable, f"{line.name}: no flat form of a struct that may be null"
        assert self.flexible, f"{line.name}: the tags at its end are what ends the run of its fields"
        variable = self.fresh("o")
        self.struct(line.struct, variable)
        self.emit(f"{target} = {self.row(line.struct, variable)}")

    def elements(self, line: Field, target: str, count: str) -> None:
        element = self.fresh("o")
        if isinstance(line.of, type) and self._is_fixed(line.of):
            self._fixed_elements(line, target, count, element)
            return
        self.emit(f"{target} = []")
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        if isinstance(line.of, str):
            self.variable_length(Field(line.of, "0+").named(line.name), element)
            self.emit(f"{target}.append({element})")
        else:
            self.struct(line.struct, element)
            self.flush()
            self.emit(f"{target}.append({self.row(line.struct, element)})")
        self.indent -= 1

    def _is_fixed(self, cls: type[Struct]) -> bool:
        inline, _, _ = fields_at(cls, self.version)
        return not self.flexible and all(line.kind in FIXED for line in inline)

    def _fixed_elements(self, line: Field, target: str, count: str, element: str) -> None:
        """Rows of one size and without tags: all at once."""
        inline, _, _ = fields_at(line.struct, self.version)
        letters = "".join(FIXED[part.kind] for part in inline)
        name = f"_rows_{letters.translate(_LETTERS)}"
        self.names[name] = f'{name} = Struct(">{letters}").iter_unpack'
        stop = self.fresh("s")
        names = ", ".join(self.place(element, part) for part in inline)
        comma = "," if len(inline) == 1 else ""
        self.emit(f"{stop} = position + {count} * {struct.calcsize('>' + letters)}")
        rows = f"{name}(buffer[position:{stop}])"
        row = self.row(line.struct, element)
        made = f"list({rows})" if row == f"({names}{comma})" else f"[{row} for {names}{comma} in {rows}]"
        self.emit(f"{target} = {made}")
        self.emit(f"position = {stop}")


def absent(line: Field) -> str:
    """What stands for a field that is not on the wire."""
    if line.kind == "struct":
        return "None"
    if line.kind == "array" and line.default is not None:
        return "[]"
    return "NO_UUID" if line.kind == "uuid" else repr(line.default)


class TupleEncoder(_Constants, EncoderSource):
    """Fields come from variables, those of a struct inside from a tuple taken apart.

    A row that has nothing but what it always has is written by one `pack`: lists and tagged fields are empty, texts
    null. Rows of integers and lists of integers are one `pack` for each set of lengths (`primitives.RowShapes`).
    """

    def __init__(self, form: FlatForm, version: int) -> None:
        super().__init__(form.flat.cls, version)
        self.form = form
        self.is_buffers = has_records(form.flat.cls, version)
        self.plain: frozenset[Field] = frozenset()  # fields that are known to be empty here
        self.parts = "parts"  # the list that `write` appends to
        self.is_piece = False  # the row to come is bytes of its own

    def place(self, variable: str, line: Field) -> str:
        name = self.form.slots.get(line, line.name)
        return name if variable == "message" else f"{variable}_{name}"

    def put(self, piece: str, *, deeper: bool = False) -> None:
        if self.is_buffers and self.write == "parts.append":
            self.emit(f"{'    ' * deeper}head += {piece}")
        else:
            super().put(piece, deeper=deeper)

    def field(self, line: Field, value: str) -> None:
        if line in self.form.slots:
            kind = "bytes" if line.kind == "uuid" else "str"
            self.emit(f"assert isinstance({value}, {kind}), 'a {line.name} is {kind}'")
        if line in self.plain:
            self._empty(line, value)
        elif line.kind == "records":
            self.records(line, value)
        else:
            super().field(line, value)

    def _empty(self, line: Field, value: str) -> None:
        """Its length, which is null or nothing."""
        is_nullable = self.version in line.nullable
        if line.kind == "string":
            self.run.append(("B", "0") if self.flexible else ("h", "-1"))
        elif self.flexible:
            self.run.append(("B", f"0 if {value} is None else 1" if is_nullable else "1"))
        else:
            self.run.append(("i", f"-1 if {value} is None else 0" if is_nullable else "0"))

    def records(self, line: Field, value: str) -> None:
        """Their buffers stand between ours."""
        size, length = self.fresh("z"), self.fresh("n")
        self.emit(f"{size} = 0 if {value} is None else size_of({value})")
        run, self.run = self.run, []
        if self.flexible:
            self.emit(f"{length} = 0 if {value} is None else {size} + 1")
            self.emit(f"if {length} < 128:")
            self.put(self.packed([*run, ("B", length)]), deeper=True)
            self.emit(f"elif {length} < 16384:")
            pair = [("B", f"{length} & 127 | 128"), ("B", f"{length} >> 7")]
            self.put(self.packed([*run, *pair]), deeper=True)
            self.emit("else:")
            self.put(self.packed(run), deeper=True)
            self.put(f"uvarint({length})", deeper=True)
        else:
            self.put(self.packed([*run, ("i", f"-1 if {value} is None else {size}")]))
        self.emit(f"if {size}:")
        self.emit("    buffers.append(head)")
        self.emit(f"    if isinstance({value}, list | tuple):")
        self.emit(f"        buffers += {value}")
        self.emit("    else:")
        self.emit(f"        buffers.append({value})")
        self.emit("    head = bytearray()")

    def nested(self, line: Field, value: str) -> None:
        assert self.version not in line.nullable, f"{line.name}: no flat form of a struct that may be null"
        variable = self.fresh("o")
        self.emit(f"{self.taken_apart(line.struct, variable)} = {value}")
        self.struct(line.struct, variable)

    def taken_apart(self, cls: type[Struct], variable: str) -> str:
        names = [self.place(variable, lines[0]) for lines in self.form.fields(cls)]
        return f"({names[0]},)" if len(names) == 1 else ", ".join(names)

    def elements(self, line: Field, items: str) -> None:
        if isinstance(line.of, str):
            super().elements(line, items)
        elif line.struct in self.form.flat.pieces:
            self.emit(f"{self.parts} += {items}")
        else:
            element = self.fresh("o")
            self.emit(f"for {self.taken_apart(line.struct, element)} in {items}:")
            self.indent += 1
            self.row(line.struct, element)
            self.indent -= 1

    def row(self, cls: type[Struct], variable: str) -> None:
        inline, tagged, _ = fields_at(cls, self.version)
        is_of_integers = all(line.kind in FIXED or _is_integers(line, self.version) for line in inline)
        is_of_lists = is_of_integers and any(line.kind == "array" for line in inline)
        may_be_empty = [] if is_of_lists else _seldom(inline, tagged, self.version)
        conditions = [
            f"{self.place(variable, line)} is None"
            if line.kind == "string"
            else f"not {self.place(variable, line)}"
            for line in may_be_empty
        ]
        conditions += [f"not ({self.differs(line, self.place(variable, line))})" for line in tagged]
        if not conditions:
            self._row(inline, tagged, variable, by_shape=is_of_lists)
            return
        self.emit(f"if {' and '.join(conditions)}:")
        self.indent += 1
        before, self.plain = self.plain, frozenset([*may_be_empty, *tagged])
        self._row(inline, tagged, variable, by_shape=is_of_lists)
        self.plain = before
        self.indent -= 1
        self.emit("else:")
        self.indent += 1
        self._row(inline, tagged, variable, by_shape=False)
        self.indent -= 1

    def _row(
        self, inline: Sequence[Field], tagged: Sequence[Field], variable: str, *, by_shape: bool
    ) -> None:
        if by_shape:
            self.by_shape(inline, variable)
            return
        outer, is_piece, self.is_piece = (self.write, self.parts), self.is_piece, False
        if is_piece:
            self.parts = self.fresh("p")
            self.write = f"{self.parts}.append"
            self.emit(f"{self.parts}: list[Any] = []")
        for line in inline:
            self.field(line, self.place(variable, line))
        if self.flexible:
            self.tagged_fields(tagged, variable)
        self.flush()
        if is_piece:
            piece = self.parts
            self.write, self.parts = outer
            self.is_piece = True
            self.put(f"b''.join({piece})")

    def pieces(self, cls: type[Struct]) -> None:
        """Each row to bytes of its own."""
        element = self.fresh("o")
        self.emit(f"for {self.taken_apart(cls, element)} in rows:")
        self.indent += 1
        self.is_piece = True
        self.row(cls, element)
        self.indent -= 1

    def by_shape(self, inline: Sequence[Field], variable: str) -> None:
        """One `pack` for the whole row, known by the lengths of its lists."""
        runs, values = [""], []
        lists: list[tuple[str, str]] = []
        for line in inline:
            value = self.place(variable, line)
            if line.kind == "array":
                length = f"{variable}_b{len(lists)}"
                values += [length, f"*{value}"]
                lists.append((value, length))
                runs.append("")
            else:
                values.append(value)
                runs[-1] += FIXED[line.kind]
        if self.flexible:
            runs[-1] += "x"
        name = "_shapes_" + "_".join(runs).translate(_LETTERS)
        self.names[name] = f"{name} = RowShapes({tuple(runs)!r}, is_flexible={self.flexible})"
        pack, sizes = self.fresh("pack"), self.fresh("sizes")
        lengths = ", ".join(f"len({value})" for value, _ in lists)
        comma = "," if len(lists) == 1 else ""
        self.emit(f"{sizes} = ({lengths}{comma})")
        self.emit(
            f"{pack}, {', '.join(length for _, length in lists)} = {name}.get({sizes}) or {name}.make({sizes})"
        )
        self.put(f"{pack}({', '.join(values)})")

    def tagged_fields(self, tagged: Sequence[Field], variable: str) -> None:
        if not tagged or all(line in self.plain for line in tagged):
            self.run.append(("x", ""))
            return
        said = " or ".join(self.differs(line, self.place(variable, line)) for line in tagged)
        run, self.run = self.run, []
        self.emit(f"if {said}:")
        self.indent += 1
        self.run = list(run)
        super().tagged_fields(tagged, variable)
        self.indent -= 1
        self.emit("else:")
        self.indent += 1
        self.run = [*run, ("x", "")]
        self.flush()
        self.indent -= 1

    def differs(self, line: Field, value: str) -> str:
        if line.kind == "struct":
            default = ", ".join(absent(lines[0]) for lines in self.form.fields(line.struct))
            return f"({value} is not None and {value} != ({default}))"
        return super().differs(line, value)


def _is_integers(line: Field, version: int) -> bool:
    return line.kind == "array" and line.of == "int32" and version not in line.nullable


def _seldom(inline: Sequence[Field], tagged: Sequence[Field], version: int) -> list[Field]:
    """The texts and lists of a row that are empty more often than not: those beside fields of one size, where nothing
    else is of any size but records."""
    seldom = [
        line
        for line in inline
        if (line.kind == "string" and version in line.nullable and line.default is None)
        or line.kind == "array"
    ]
    others = [line for line in inline if line not in seldom]
    is_row = others and all(line.kind in FIXED or line.kind == "records" for line in others)
    has_lists = tagged or any(line.kind == "array" for line in seldom)
    return seldom if is_row and has_lists else []


class ObjectDecoder(_Constants, DecoderSource):
    def elements(self, line: Field, target: str, count: str) -> None:
        items, element = self.fresh("a"), self.fresh("o")
        kind = line.of if isinstance(line.of, str) else line.struct.__name__
        self.emit(f"{items}: list[{PYTHON_TYPES.get(kind, kind)}] = []")
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        if isinstance(line.of, str):
            self.variable_length(Field(line.of, "0+").named(line.name), element)
        else:
            self.struct(line.struct, element)
            self.flush()
        self.emit(f"{items}.append({element})")
        self.indent -= 1
        self.emit(f"{target} = {items}")


class ObjectEncoder(_Constants, EncoderSource):
    pass

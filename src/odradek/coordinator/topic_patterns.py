"""Regular expressions over the names of topics, in time that is linear in the name whatever the expression.

A group's expression comes from a stranger and is tried on every topic, so nothing here backtracks: an expression becomes
an automaton of at most MOST_STATES states, and a name is read once, with the set of states it may be in. That is
RE2's way, and of its syntax what can mean something for the name of a topic, which is printable ASCII:

    literals  .  [a-z]  [^0-9]  [[:alpha:]]  \\d \\w \\s \\D \\W \\S  \\.  \\Q...\\E  (...)  (?:...)  (?P<name>...)  (?i)
    |  *  +  ?  {2}  {2,}  {2,5}  and lazy ones, which match the same names  ^ $ \\A \\z

The whole name has to match. Back-references and look-around are not RE2's either.
"""

from string import ascii_lowercase, ascii_uppercase, digits, punctuation

MOST_BYTES = 1_024  # of an expression
MOST_STATES = 1_000
# Of an expression's parts, as often as they are repeated: one that matches nothing makes no state, however often it is asked to.
MOST_PARTS = 10 * MOST_STATES
# States looked at over all names that one expression is tried on: about a second of a thread. Successors that are
# remembered cost nothing, so only an expression that is made to be dear comes there.
MOST_WORK = 5_000_000
MOST_REPEATS = 1_000
MOST_DEPTH = 50
MOST_CACHED = 1_000  # sets of states whose successors are remembered
_SIZE = 128

Chars = int  # a bit for each of the characters 0-127


class InvalidPattern(ValueError):
    """The text says what is wrong."""


def _chars(text: str) -> Chars:
    found = 0
    for one in text:
        found |= 1 << ord(one)
    return found


_ANY = (1 << _SIZE) - 1 & ~_chars("\n")
_ALL = (1 << _SIZE) - 1
_SPACE = _chars(" \t\n\f\r")
_DIGIT = _chars(digits)
_ALPHA = _chars(ascii_lowercase + ascii_uppercase)
_CLASSES = {"d": _DIGIT, "w": _DIGIT | _ALPHA | _chars("_"), "s": _SPACE}
_CLASSES |= {name.upper(): _ALL & ~chars for name, chars in _CLASSES.items()}
_NAMED = {
    "alnum": _DIGIT | _ALPHA,
    "alpha": _ALPHA,
    "ascii": _ALL,
    "blank": _chars(" \t"),
    "digit": _DIGIT,
    "lower": _chars(ascii_lowercase),
    "punct": _chars(punctuation),
    "space": _SPACE | _chars("\v"),
    "upper": _chars(ascii_uppercase),
    "word": _CLASSES["w"],
    "xdigit": _chars(digits + "abcdefABCDEF"),
}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# Assertions, as they stand in an automaton beside characters.
_AT_START, _AT_END = -1, -2

# An expression as a tree: ("chars", Chars), ("assert", which), ("cat", nodes), ("alt", nodes), ("repeat", node, low, high)
Node = tuple[object, ...]


class Pattern:
    """States are numbers; each has one kind of step, or two ways that cost nothing."""

    def __init__(self, steps: list[int], nexts: list[tuple[int, ...]], start: int, end: int) -> None:
        self._steps = steps
        self._nexts = nexts
        self._end = end
        self._known: dict[tuple[frozenset[int], int], frozenset[int]] = {}
        self._work = 0
        self._start = self._closure([start], at_start=True)

    def matches(self, name: str) -> bool:
        """The whole of it. InvalidPattern: the expression has cost too much by now."""
        states = self._start
        for letter in name:
            code = ord(letter)
            if code >= _SIZE:
                return False
            states = self._after(states, code)
            if not states:
                return False
        return self._end in self._closure(states, at_start=not name, at_end=True)

    def _after(self, states: frozenset[int], code: int) -> frozenset[int]:
        key = states, code
        found = self._known.get(key)
        if found is None:
            bit = 1 << code
            stepped = [
                self._nexts[one][0] for one in states if self._steps[one] > 0 and self._steps[one] & bit
            ]
            found = self._closure(stepped)
            if len(self._known) >= MOST_CACHED:
                self._known.clear()
            self._known[key] = found
        return found

    def _closure(
        self, states: "list[int] | frozenset[int]", *, at_start: bool = False, at_end: bool = False
    ) -> frozenset[int]:
        found = set(states)
        todo = list(states)
        while todo:
            one = todo.pop()
            step = self._steps[one]
            if step > 0 or (step == _AT_START and not at_start) or (step == _AT_END and not at_end):
                continue
            for other in self._nexts[one]:
                if other not in found:
                    found.add(other)
                    todo.append(other)
        self._work += len(found)
        if self._work > MOST_WORK:
            raise InvalidPattern("takes too long on the names of the topics")
        return frozenset(found)


def compile_pattern(text: str) -> Pattern:
    """InvalidPattern: it is none, or would take too many states."""
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise InvalidPattern(f"longer than {MOST_BYTES} bytes")
    return _Builder().build(_Parser(text).parse())


# ------------------------------------------------------------------------------------------------ automaton


class _Builder:
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.nexts: list[tuple[int, ...]] = []
        self.parts = 0

    def build(self, node: Node) -> Pattern:
        end = self._state(0)
        start = self._add(node, end)
        return Pattern(self.steps, self.nexts, start, end)

    def _state(self, step: int, *nexts: int) -> int:
        if len(self.steps) >= MOST_STATES:
            raise _too_large()
        self.steps.append(step)
        self.nexts.append(nexts)
        return len(self.steps) - 1

    def _add(self, node: Node, after: int) -> int:
        """The state in front of `node`; `after`: the one behind it."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise _too_large()
        kind = node[0]
        if kind == "chars" or kind == "assert":
            chars = node[1]
            assert isinstance(chars, int)
            return self._state(chars, after) if chars else self._state(0)  # nothing matches an empty class
        if kind == "cat":
            for part in reversed(_nodes(node)):
                after = self._add(part, after)
            return after
        if kind == "alt":
            return self._state(0, *(self._add(part, after) for part in _nodes(node)))
        _, inner, low, high = node
        assert isinstance(inner, tuple) and isinstance(low, int)
        return self._repeat(inner, low, high, after)

    def _repeat(self, inner: Node, low: int, high: object, after: int) -> int:
        if high is None:
            loop = self._state(0)
            self.nexts[loop] = self._add(inner, loop), after
            after = loop
        else:
            assert isinstance(high, int)
            behind = after
            for _ in range(high - low):
                after = self._state(0, self._add(inner, after), behind)
        for _ in range(low):
            after = self._add(inner, after)
        return after


def _too_large() -> InvalidPattern:
    return InvalidPattern("expression too large")


def _nodes(node: Node) -> list[Node]:
    found = node[1]
    assert isinstance(found, list)
    return found


# --------------------------------------------------------------------------------------------------- syntax


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.is_caseless = False

    def parse(self) -> Node:
        node = self._alternatives()
        if self.at < len(self.text):
            raise InvalidPattern("unexpected )")
        return node

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _next(self, missing: str) -> str:
        if self.at >= len(self.text):
            raise InvalidPattern(missing)
        self.at += 1
        return self.text[self.at - 1]

    def _takes(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _alternatives(self) -> Node:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise InvalidPattern("expression nests too deeply")
        caseless = self.is_caseless
        found = [self._sequence()]
        while self._takes("|"):
            found.append(self._sequence())
        self.depth -= 1
        self.is_caseless = caseless
        return found[0] if len(found) == 1 else ("alt", found)

    def _sequence(self) -> Node:
        found: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            if self._takes("\\Q"):
                *others, last = self._quoted() or [("cat", [])]
                found += [*others, self._repeated(last)]
                continue
            node = self._one()
            if node is not None:
                found.append(self._repeated(node))
        return "cat", found

    def _quoted(self) -> list[Node]:
        stop = self.text.find("\\E", self.at)
        quoted = self.text[self.at : stop if stop >= 0 else len(self.text)]
        self.at = stop + 2 if stop >= 0 else len(self.text)
        return [self._literal(letter) for letter in quoted]

    def _one(self) -> Node | None:
        letter = self._next("")
        match letter:
            case "(":
                return self._group()
            case "[":
                return "chars", self._class()
            case ".":
                return "chars", _ANY
            case "^":
                return "assert", _AT_START
            case "$":
                return "assert", _AT_END
            case "\\":
                return self._escaped()
            case "*" | "+" | "?":
                raise InvalidPattern(f"missing argument to repetition operator: {letter}")
        return self._literal(letter)

    def _group(self) -> Node | None:
        caseless = self.is_caseless
        if self._takes("?"):
            if self._takes("P<") or (
                self.text[self.at + 1 : self.at + 2] not in ("=", "!") and self._takes("<")
            ):
                name, found, self.at = self._until(">")
                if not found or not name.isidentifier():
                    raise InvalidPattern("invalid named capture")
            else:
                if self._flags():
                    return None
        node = self._alternatives()
        self._next("missing closing )")
        self.is_caseless = caseless
        return node

    def _until(self, mark: str) -> tuple[str, bool, int]:
        stop = self.text.find(mark, self.at)
        return (self.text[self.at : stop], True, stop + 1) if stop >= 0 else ("", False, self.at)

    def _flags(self) -> bool:
        """Behind `(?`: whether the group ends here, its flags being for what follows."""
        is_on = True
        caseless = self.is_caseless
        while True:
            match self._next("missing closing )"):
                case "i":
                    caseless = is_on
                case "m" | "s" | "U":
                    pass  # no name of a topic has two lines, and lazy matches the same
                case "-":
                    is_on = False
                case ":":
                    self.is_caseless = caseless
                    return False
                case ")":
                    self.is_caseless = caseless
                    return True
                case _:
                    raise InvalidPattern("invalid or unsupported Perl syntax")

    def _repeated(self, node: Node) -> Node:
        times = 0
        while True:
            low, high = self._repetition()
            if low is None:
                return node
            times += 1
            if times > 1:
                raise InvalidPattern("invalid nested repetition operator")
            self._takes("?")
            node = "repeat", node, low, high

    def _repetition(self) -> tuple[int | None, int | None]:
        for sign, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._takes(sign):
                return low, high
        inside, found, behind = self._until("}") if self._peek() == "{" else ("", False, 0)
        first, comma, last = inside[1:].partition(",")
        if not found or not _is_number(first) or not (last == "" or _is_number(last)):
            return None, None  # a brace like any other letter, if there is one
        self.at = behind
        low = int(first)
        high = low if not comma else int(last) if last else None
        if low > MOST_REPEATS or (high is not None and not low <= high <= MOST_REPEATS):
            raise InvalidPattern(f"invalid repetition count: {inside}}}")
        return low, high

    def _literal(self, letter: str) -> Node:
        return "chars", self._cased(1 << ord(letter) if ord(letter) < _SIZE else 0)

    def _cased(self, chars: Chars) -> Chars:
        if not self.is_caseless:
            return chars
        for lower, upper in zip(ascii_lowercase, ascii_uppercase, strict=True):
            both = _chars(lower + upper)
            if chars & both:
                chars |= both
        return chars

    def _escaped(self) -> Node:
        letter = self._next("trailing \\")
        if letter in _CLASSES:
            return "chars", _CLASSES[letter]
        if letter == "A":
            return "assert", _AT_START
        if letter == "z":
            return "assert", _AT_END
        return self._literal(self._escaped_letter(letter))

    def _escaped_letter(self, letter: str) -> str:
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter == "x":
            code = self.text[self.at : self.at + 2]
            if len(code) < 2 or any(one not in "0123456789abcdefABCDEF" for one in code):
                raise InvalidPattern("invalid escape sequence: \\x")
            self.at += 2
            return chr(int(code, 16))
        if letter.isascii() and letter.isalnum():
            raise InvalidPattern(f"invalid escape sequence: \\{letter}")
        return letter

    def _class(self) -> Chars:
        is_negated = self._takes("^")
        found = 0
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            if self._takes("[:"):
                name, is_closed, self.at = self._until(":]")
                outside = name.startswith("^")
                if not is_closed or name.lstrip("^") not in _NAMED:
                    raise InvalidPattern("invalid character class range")
                self.at += 1
                chars = self._cased(_NAMED[name.lstrip("^")])
                found |= _ALL & ~chars if outside else chars
                continue
            first = self._class_member()
            if len(first) > 1 or self._peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
                found |= _CLASSES[first[1]] if len(first) > 1 else self._bit(first)
                continue
            self.at += 1
            last = self._class_member()
            if len(last) > 1 or last < first:
                raise InvalidPattern(f"invalid character class range: {first}-{last[-1]}")
            found |= sum(1 << code for code in range(ord(first), min(ord(last), _SIZE - 1) + 1))
        self.at += 1
        found = self._cased(found)  # before it is negated: (?i)[^a] is not A either
        return _ALL & ~found if is_negated else found

    def _class_member(self) -> str:
        """A letter, or `\\d` and its like as they are written."""
        letter = self._next("missing closing ]")
        if letter != "\\":
            return letter
        escaped = self._next("missing closing ]")
        return f"\\{escaped}" if escaped in _CLASSES else self._escaped_letter(escaped)

    @staticmethod
    def _bit(letter: str) -> Chars:
        return 1 << ord(letter) if ord(letter) < _SIZE else 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))

"""Passages: stretches of text with inline elements, each translated as one text.

Before translation, elements are taken out of the text, and so are units that are not translated
(placeholders, addresses, code, images, comments). The alignment shows where to put them back. Each
element and unit is written exactly once, whatever the alignment; elements stay nested as they were.
"""

from typing import Callable, List, Optional, Sequence, Union

from .inline_elements import Mark, write_marks
from .placeholders import without_placeholders
from .word_alignment import Link

_LINE_BREAKS = tuple("\r\n\x0b\x0c\x85\u2028\u2029")


class Passage:
    """A text with marks (elements and units), built by :meth:`add`, :meth:`unit`, :meth:`open` and
    :meth:`close`, in the order of the text.

    Args:
        escape: function that is applied to text when it is written, e.g. to escape it for HTML.

    Attributes:
        text: the text to translate, without marks.
    """

    def __init__(self, escape: Callable[[str], str] = str) -> None:
        self.text = ""
        self._escape = escape
        self._root = Mark("", 0)
        self._open = [self._root]
        self._written: List[str] = []
        self._parts: List[str] = []
        self._length = 0
        self._last = ""
        # The last unit while no text follows it; whether a space before it was removed.
        self._unit: Optional[Mark] = None
        self._cut = False
        self._worded = False
        # Whether the last addition was text, apart from opening tags.
        self._bare = False

    @property
    def marked(self) -> bool:
        """Whether the passage has marks."""
        return bool(self._root.inside)

    def add(self, text: str, written: Optional[str] = None) -> None:
        """Adds text of at least one character to the end.

        Args:
            text: the text.
            written: the text's original spelling, used if the passage stays untranslated; None: the
                escaped text.
        """
        self._written.append(self._escape(text) if written is None else written)
        self._bare = True
        if self._unit is not None:
            unit, self._unit = self._unit, None
            unit.space_after = text[0].isspace()
            if unit.leading and text[0] == " ":
                # Without the unit the line would begin with this space.
                text = text[1:]
                if not text:
                    self._bare = False
                    return
                unit.following = text[0]
            # Without the unit two words would be joined.
            divided = self._cut and not text[0].isspace() and any(map(str.isalnum, text[:2]))
            unit.glued = not unit.leading and (
                divided or (text[0].isalnum() and not self._last.isalnum())
            )
            if divided:
                unit.preceding = ""
                self._append(" ")
        self._append(text)
        self._cut = False

    def unit(self, written: str) -> None:
        """Adds a unit (placeholder, image, code, comment), which is not translated, to the end.

        Args:
            written: the unit's markup or text.
        """
        self._written.append(written)
        unit = Mark(written, self._length, leading=not self._worded or self._last in _LINE_BREAKS)
        unit.space_before = self._unit is None and self._last.isspace()
        if self._bare and self._last == " " and not unit.leading:
            # Without the unit, a comma behind it would follow a space: remove the space before.
            self._parts[-1] = self._parts[-1][:-1]
            self._length -= 1
            while self._parts and not self._parts[-1]:
                self._parts.pop()
            self._cut, self._last = True, self._parts[-1][-1] if self._parts else ""
            unit.preceding = self._last if self._last.isspace() else ""
            for element in self._open:
                element.start = min(element.start, self._length)
        unit.start = unit.end = self._length
        self._open[-1].inside.append(unit)
        self._unit, self._bare = unit, False

    def open(self, written: str) -> None:
        """Begins an element; ``written`` is its opening tag."""
        self._written.append(written)
        element = Mark(written, self._length)
        self._open[-1].inside.append(element)
        self._open.append(element)

    def close(self, written: str) -> None:
        """Ends the innermost open element; ``written`` is its closing tag."""
        self._written.append(written)
        element = self._open.pop()
        element.closing, element.end = written, self._length
        self._bare = False

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        self._last = text[-1]
        self._worded = self._worded or not text.isspace()

    def finish(self) -> None:
        """Ends the passage, to which nothing more is added, and sets :attr:`text`."""
        self.text = "".join(self._parts)
        self._root.end = self._length

    def untranslated(self) -> str:
        """The passage as it was written, with its marks; used if it is not translated."""
        return "".join(self._written)

    def write(self, translation: str, found: Sequence[Link]) -> str:
        """Returns the translation with the marks of the passage.

        Args:
            translation: the translation of :attr:`text`.
            found: the links between the words of :attr:`text` and of the translation.
        """
        if not self.marked:
            return self._escape(translation)
        return write_marks(self._root, self.text, translation, found, self._escape)


class Document:
    """A text to translate: passages, and the markup between them.

    Args:
        escape: function that is applied to text when it is written, e.g. to escape it for HTML.
        aligned: whether translations have word alignments; without alignments each piece of text
            between two marks is a passage of its own.

    Attributes:
        aligned: see above.
        passages: the passages with letters or digits, in order.
        passage: the passage under construction, which is not yet in ``passages``.
    """

    def __init__(self, escape: Callable[[str], str] = str, aligned: bool = False) -> None:
        self.passages: List[Passage] = []
        self._escape, self.aligned = escape, aligned
        self._parts: List[Union[str, Passage]] = []
        # The passage under construction.
        self.passage = Passage(escape)

    def add(self, text: str, written: Optional[str] = None) -> None:
        """Adds text to the passage under construction. Placeholders in the text are not translated:
        they become units or, without alignments, end the passage.

        Args:
            text: the text.
            written: the text's original spelling, or None, see :meth:`Passage.add`.
        """
        for piece, is_placeholder in without_placeholders(text):
            if not is_placeholder:
                self.passage.add(piece, written if piece == text else None)
            elif self.aligned:
                self.passage.unit(self._escape(piece))
            else:
                self.end(self._escape(piece))

    def end(self, written: str = "") -> None:
        """Ends the passage under construction; it is translated only if it has letters or digits.

        Args:
            written: markup to write, unchanged, behind the passage.
        """
        ended, self.passage = self.passage, Passage(self._escape)
        ended.finish()
        # Signs and emoji alone are not translated, either.
        if any(map(str.isalnum, ended.text)):
            self.passages.append(ended)
            self._parts += [ended, written]
        else:
            self._parts += [ended.untranslated(), written]

    def join(self, translations: Sequence[str]) -> str:
        """The whole document, with ``translations`` in place of its :attr:`passages`; they have
        their marks already, see :meth:`Passage.write`."""
        written = iter(translations)
        return "".join(next(written) if isinstance(part, Passage) else part for part in self._parts)

"""What a plot draws, to the pixel: where each value stands, and what is left out."""

from collections.abc import Callable

import pytest

from odradek.pictures import plots
from odradek.pictures.colours import broker_colour, diverging, readable_on
from odradek.pictures.plots import NARROW, WIDE, Mark
from tests.pictures.shapes import BOX, ENDS, Shape, drawn, tips


def acknowledgements(**more: object) -> str:
    given: dict[str, object] = {
        "samples": [(-0.5, 900.0), (0.0, 100.0), (0.5, 0.0), (1.0, 200.0), (1.9, 40.0), (2.0, 40.0), (3.0, 900.0)],
        "lanes": [
            ("a-0", [(-9.0, -0.5, 4), (-0.5, 0.5, 1), (0.5, 1.5, 2), (2.0, 2.5, 4)]),
            ("a-1", [(-1.0, 0.0, 4), (1.9, 2.5, 3)]),
        ],
        "marks": [
            Mark(-0.1, "leader", "before"),
            Mark(0.0, "kill", "kill -9"),
            Mark(1.99, "isr-full", "every ISR is full"),
            Mark(2.1, "leader", "later"),
        ],
        "first_s": 0.0,
        "last_s": 2.0,
        "gap": (0.5, 1.0),
        "slot_s": 0.5,
        "label": "a<b",
    }  # fmt: skip
    plot: Callable[..., str] = plots.acknowledgements
    return plot(**{**given, **more})


def test_acknowledgements_are_an_area_of_slots_and_what_lies_outside_is_left_out() -> None:
    svg = acknowledgements()

    assert drawn(svg, "svg", "viewBox", "role", "aria_label", "class") == [
        ("0 0 1040 344", "img", "a<b", "wide")
    ]
    # 956 px for two seconds, and 190 px for 210 records a second, a twentieth more than most.
    assert drawn(svg, "polygon", "points", "class") == [
        (
            "64.0,254.0 64.0,163.5 303.0,163.5 303.0,254.0 542.0,254.0 542.0,73.0 781.0,73.0 "
            "972.2,217.8 1020.0,217.8 1020.0,254.0",
            "area",
        )
    ]
    assert drawn(svg, "line", *ENDS, class_="grid") == [
        (64, 254, 1020, 254),
        (64, 163.5, 1020, 163.5),
        (64, 73, 1020, 73),
    ]
    assert drawn(svg, "text", "x", "y", text_anchor="end", class_="tick") == [
        ("0", 56, 258),
        ("100", 56, 167.5),
        ("200", 56, 77),
        ("a-0", 56, 276),
        ("a-1", 56, 289),
        ("seconds since the collector began", 1020, 330),
    ]
    assert drawn(svg, "text", "x", "y", text_anchor="start", class_="tick") == [
        ("acknowledged records per second", 64, 56)
    ]


def test_a_lane_has_the_colour_of_who_leads() -> None:
    boxes = [shape for shape in drawn(acknowledgements(), "rect", *BOX, "fill") if shape[-1] is not None]

    assert boxes == [
        (64, 267, 239, 11, broker_colour(1)),
        (303, 267, 478, 11, broker_colour(2)),
        (972.2, 280, 47.8, 11, broker_colour(3)),
    ]


@pytest.mark.parametrize(
    ("gap", "boxes"),
    [
        (None, []),
        ((0.5, 1.0), [(303, 64, 239, 228)]),
        ((-1.0, 0.5), [(64, 64, 239, 228)]),
        ((1.5, 9.0), [(781, 64, 239, 228)]),
        ((-1.0, 0.0), [(64, 64, 1.5, 228)]),
        ((2.0, 3.0), [(1020, 64, 1.5, 228)]),
        ((0.5, 0.5), [(303, 64, 1.5, 228)]),
        ((-2.0, -1.0), []),
        ((2.1, 3.0), []),
    ],
)
def test_a_gap_is_seen_however_short_as_far_as_the_plot_goes(
    gap: tuple[float, float] | None, boxes: list[Shape]
) -> None:
    assert drawn(acknowledgements(gap=gap), "rect", *BOX, class_="gap") == boxes


def test_a_mark_with_more_words_than_the_plot_is_wide_is_not_cut() -> None:
    """The demo's: "kill -9 of broker 2: controller, leader and the group's coordinator" at 480 pixels."""
    svg = acknowledgements(marks=[Mark(1.0, "kill", "w" * 66), Mark(1.0, "kill", "w" * 40)], width=NARROW)
    (_, x, fits), (_, *plain) = drawn(svg, "text", "x", "textLength", class_="words")
    assert x + fits == NARROW and plain[1:] in ([], [None]), "and the other is as it is"


def test_marks_stand_one_below_the_other_and_within_the_plot() -> None:
    svg = acknowledgements()

    assert drawn(svg, "line", *ENDS, class_="mark kill") == [(64, 64, 64, 292), (64, 14, 78, 14)]
    # The words of the second begin as far to the left as they are long.
    assert drawn(svg, "line", *ENDS, class_="mark isr-full") == [
        (1015.2, 64, 1015.2, 292),
        (875.2, 32, 889.2, 32),
    ]
    assert drawn(svg, "text", "x", "y", "text_anchor", class_="words") == [
        ("kill -9", 83, 18, "start"),
        ("every ISR is full", 894.2, 36, "start"),
    ]
    at_the_ends = acknowledgements(marks=[Mark(0.0, "kill", "a"), Mark(2.0, "kill", "w" * 200)])
    assert drawn(at_the_ends, "text", "x", "y", class_="words") == [("a", 83, 18), ("w" * 200, 23, 36)]


@pytest.mark.parametrize(
    ("width", "ticks"),
    [
        (WIDE, [(f"{n / 5:g}", round(64 + 95.6 * n, 1), 314) for n in range(11)]),
        (NARROW, [(f"{n / 2:g}", 64 + 84 * n, 314) for n in range(5)]),
    ],
)
def test_the_axis_has_as_many_ticks_as_there_is_room_for(width: int, ticks: list[Shape]) -> None:
    svg = acknowledgements(width=width)

    right = width - 20
    assert drawn(svg, "text", "x", "y", text_anchor="middle", class_="tick") == ticks
    assert drawn(svg, "line", *ENDS, class_="axis") == [
        (64, 296, right, 296),
        *((x, 296, x, 300) for _, x, _ in ticks),
    ]
    assert drawn(svg, "svg", "class") == [("wide" if width == WIDE else "narrow",)]


def test_a_plot_without_samples_has_a_scale_and_no_area() -> None:
    for samples in ([], [(0.0, 0.0)], [(3.0, 70.0)]):
        svg = acknowledgements(samples=samples, lanes=[], marks=[], gap=None)

        assert drawn(svg, "svg", "viewBox") == [("0 0 1040 282",)]
        assert drawn(svg, "text", "y", text_anchor="end", class_="tick")[:-1] == [
            ("0", 222),
            ("0.5", 131.5),
            ("1", 41),
        ], samples


@pytest.mark.parametrize("at", [0.0, 2.0])
def test_the_scale_goes_as_far_as_the_most_of_the_plot_with_both_its_ends(at: float) -> None:
    ticks = drawn(acknowledgements(samples=[(at, 80.0)], lanes=[]), "text", text_anchor="end", class_="tick")
    assert ticks[:-1] == [("0",), ("25",), ("50",), ("75",)]


ROWS = [("UA", 2.8, "2.8 (100)"), ("AA", -1.0, "-1"), ("B6", 0.0, "0")]


def test_bars_begin_at_nought_with_names_before_them() -> None:
    svg = plots.bars(ROWS, "bars")

    assert drawn(svg, "svg", "viewBox", "class") == [("0 0 1040 102", "wide")]
    assert drawn(svg, "rect", *BOX, "rx", class_="bar") == [
        (361.1, 11, 478.9, 17, 2),
        (190, 35, 171.1, 17, 2),
        (361.1, 59, 0.8, 17, 2),  # nothing is seen as well
    ]
    assert drawn(svg, "text", "x", "y", "text_anchor", class_="name") == [
        ("UA", 180, 24, "end"),
        ("AA", 180, 48, "end"),
        ("B6", 180, 72, "end"),
    ]
    ticks = (("-1", 190), ("0", 361.1), ("1", 532.1), ("2", 703.2))
    assert drawn(svg, "text", "x", "y", "text_anchor", class_="tick") == [
        *((words, x, 96, "middle") for words, x in ticks),
        ("2.8 (100)", 1020, 24, "end"),
        ("-1", 1020, 48, "end"),
        ("0", 1020, 72, "end"),
    ]
    assert drawn(svg, "line", *ENDS, class_="grid") == [
        (x, y, x, y + 24) for y in (8, 32, 56) for _, x in ticks
    ]


def test_bars_have_their_names_above_them_where_there_is_no_room_before() -> None:
    svg = plots.bars(ROWS, "bars", width=NARROW)

    assert drawn(svg, "svg", "viewBox", "class") == [("0 0 420 150", "narrow")]
    assert drawn(svg, "rect", *BOX, class_="bar") == [
        (108.2, 29, 291.8, 15),
        (4, 69, 104.2, 15),
        (108.2, 109, 0.8, 15),
    ]
    assert drawn(svg, "text", "x", "y", "text_anchor", class_="name") == [
        ("UA", 4, 21, "start"),
        ("AA", 4, 61, "start"),
        ("B6", 4, 101, "start"),
    ]
    ticks = (("-1", 4), ("0", 108.2), ("1", 212.4), ("2", 316.6))
    assert drawn(svg, "text", "x", "y", "text_anchor", class_="tick") == [
        *((words, x, 144, "middle") for words, x in ticks),
        ("2.8 (100)", 400, 21, "end"),
        ("-1", 400, 61, "end"),
        ("0", 400, 101, "end"),
    ]
    assert drawn(svg, "line", *ENDS, class_="grid") == [
        (x, y + 18, x, y + 40) for y in (8, 48, 88) for _, x in ticks
    ]


def test_plots_of_nothing_have_an_axis_from_nought_to_one() -> None:
    for rows in ([], [("a", 0.0, "")]):
        ticks = drawn(plots.bars(rows, "bars"), "text", "x", text_anchor="middle")
        assert ticks == [(f"{n / 5:g}", 190 + 130 * n) for n in range(6)]
    for columns in ([], [("a", 0.0, 0.0)]):
        ticks = drawn(plots.columns(columns, "columns"), "text", "x", "y", text_anchor="end")
        assert [(words, x) for words, x, _ in ticks] == [("0", 56), ("0.25", 56), ("0.5", 56), ("0.75", 56), ("1", 56)]  # fmt: skip
        assert ticks[0][2] == 218
    assert drawn(plots.columns([("a", 0.0, 0.0)], "columns"), "rect", *BOX, "fill_opacity") == [
        (178.7, 214, 726.6, 0.8, 0.3)
    ]
    assert drawn(plots.heat([], [], {}, "min", "heat"), "svg", "viewBox") == [("0 0 1040 30",)]


def test_columns_stand_on_nought_and_the_more_records_the_darker() -> None:
    svg = plots.columns([("5", 2.0, 90.0), ("6", -1.0, 40.0), ("7", 0.0, 0.0)], "columns")

    assert drawn(svg, "svg", "viewBox") == [("0 0 1040 240",)]
    assert drawn(svg, "rect", *BOX, "rx", "fill_opacity", class_="bar") == [
        (102.2, 20.5, 242.2, 129, 2, 1.0),
        (420.9, 149.5, 242.2, 64.5, 2, 0.77),  # 0.3 + 0.7 * 2 / 3
        (739.6, 149.5, 242.2, 0.8, 2, 0.3),
    ]
    assert drawn(svg, "text", "x", "y", text_anchor="middle", class_="tick") == [
        ("5", 223.3, 232),
        ("6", 542, 232),
        ("7", 860.7, 232),
    ]
    levels = (("-1", 214), ("0", 149.5), ("1", 85), ("2", 20.5))
    assert drawn(svg, "line", *ENDS, class_="grid") == [(64, y, 1020, y) for _, y in levels]
    assert drawn(svg, "text", "x", "y", text_anchor="end", class_="tick") == [
        (words, 56, y + 4) for words, y in levels
    ]


@pytest.mark.parametrize(
    ("count", "name", "width", "of_columns", "of_cells"),
    [
        (40, "07", WIDE, 40, 20),  # 23.9 px for 22.2; beside the names of rows 20.8
        (50, "07", WIDE, 25, 25),
        (41, "07", NARROW, 14, 14),
        (12, "January", NARROW, 4, 6),  # 28 and 33 px for 59.2
    ],
)
def test_names_of_columns_are_left_out_where_they_would_touch(
    count: int, name: str, width: int, of_columns: int, of_cells: int
) -> None:
    columns = plots.columns([(name, 1.0, 1.0)] * count, "columns", width=width)
    cells = plots.heat([], [name] * count, {}, "min", "heat", width=width)
    assert len(drawn(columns, "text", text_anchor="middle")) == of_columns
    assert len(drawn(cells, "text", text_anchor="middle")) == of_cells


CELLS = {("UA", "5"): 2.0, ("AA", "6"): -1.0}


def test_cells_have_the_colour_of_their_value_and_its_words() -> None:
    svg = plots.heat(("UA", "AA"), ("5", "6"), CELLS, "min", "heat")

    warm, cold = diverging(1.0), diverging(-0.5)
    assert drawn(svg, "svg", "viewBox") == [("0 0 1040 78",)]
    assert drawn(svg, "rect", *BOX, "fill", "rx") == [
        (190.5, 4.5, 414, 23, warm, 2),
        (605.5, 28.5, 414, 23, cold, 2),
    ]
    assert tips(svg) == ["UA, 5: 2.0 min", "AA, 6: -1.0 min"]
    assert drawn(svg, "text", "x", "y", "text_anchor", "style", "data_on", class_="cell") == [
        ("2", 397.5, 20, "middle", f"fill:{readable_on(warm)}", warm),
        ("-1", 812.5, 44, "middle", f"fill:{readable_on(cold)}", cold),
    ]
    assert drawn(svg, "text", "x", "y", "text_anchor", class_="name") == [
        ("UA", 180, 20, "end"),
        ("AA", 180, 44, "end"),
    ]
    assert drawn(svg, "text", "x", "y", "text_anchor", class_="tick") == [
        ("5", 397.5, 68, "middle"),
        ("6", 812.5, 68, "middle"),
    ]


def test_cells_have_the_names_of_their_rows_above_them_where_there_is_no_room_before() -> None:
    svg = plots.heat(("UA", "AA"), ("5", "6"), CELLS, "min", "heat", width=NARROW)

    assert drawn(svg, "svg", "viewBox", "class") == [("0 0 420 114", "narrow")]
    assert drawn(svg, "rect", *BOX) == [(4.5, 22.5, 197, 23), (202.5, 64.5, 197, 23)]
    assert drawn(svg, "text", "x", "y", class_="cell") == [("2", 103, 38), ("-1", 301, 80)]
    assert drawn(svg, "text", "x", "y", "text_anchor", class_="name") == [
        ("UA", 4, 17, "start"),
        ("AA", 4, 59, "start"),
    ]
    assert drawn(svg, "text", "x", "y", class_="tick") == [("5", 103, 104), ("6", 301, 104)]


def test_cells_that_are_too_narrow_for_words_have_a_tip_alone() -> None:
    def words(columns: int) -> int:
        names = [str(n) for n in range(columns)]
        svg = plots.heat(("UA",), names, {("UA", "0"): 1.0}, "min", "heat")
        return len(drawn(svg, "text", class_="cell"))

    assert [words(columns) for columns in (27, 28)] == [1, 0]  # 30.7 and 29.6 px


def test_one_outlier_does_not_bleach_the_other_cells() -> None:
    """The scale ends where 95 % of the cells do, and at 1 at least."""
    names = [str(n) for n in range(20)]
    values = {("UA", name): 4.0 for name in names}
    values["UA", "19"], values["UA", "0"] = 800.0, -800.0

    def fills(values: dict[tuple[str, str], float]) -> list[str | float | None]:
        return [fill for (fill,) in drawn(plots.heat(("UA",), names, values, "min", "heat"), "rect", "fill")]

    assert fills({**values, ("UA", "20"): 4.0}) == [
        diverging(-1.0),
        *[diverging(1.0)] * 19,
    ]
    assert fills({("UA", "0"): 0.5}) == [diverging(0.5)]
    assert fills({("UA", "0"): -2.0, ("UA", "1"): -8.0}) == [diverging(-1.0), diverging(-1.0)]


def test_slots_join_across_two_that_are_missing_and_no_more() -> None:
    assert plots.stretches([(0.0, 1), (3.0, 1), (7.0, 1)], 1.0) == [(0.0, 4.0, 1), (7.0, 8.0, 1)]
    assert plots.stretches([(0.0, 1), (1.0, 2)], 1.0) == [(0.0, 1.0, 1), (1.0, 2.0, 2)]
    assert plots.stretches([(0.0, 1), (3.5, 1)], 1.0) == [(0.0, 1.0, 1), (3.5, 4.5, 1)]


def test_bars_and_columns_of_large_values_begin_at_nought_all_the_same() -> None:
    bars = plots.bars([("a", 50.0, ""), ("b", 100.0, "")], "bars")
    assert drawn(bars, "rect", "x", "width", class_="bar") == [(190, 325), (190, 650)]
    columns = plots.columns([("a", 50.0, 1.0), ("b", 100.0, 1.0)], "columns")
    assert drawn(columns, "rect", "y", "height", class_="bar") == [(118.8, 95.2), (23.5, 190.5)]
    below = plots.bars([("a", -50.0, ""), ("b", -100.0, "")], "bars")
    assert drawn(below, "rect", "x", "width", class_="bar") == [(515, 325), (190, 650)]
    under = plots.columns([("a", -50.0, 1.0), ("b", -100.0, 1.0)], "columns")
    assert drawn(under, "rect", "y", "height", class_="bar") == [(14, 100), (14, 200)]

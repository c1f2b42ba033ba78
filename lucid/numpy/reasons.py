"""Names of NumPy's that `lucid.numpy` has not, and why."""

_STRINGS = "tensors hold numbers; use NumPy's own for strings"
_RECORDS = "tensors hold numbers; use NumPy's own for records"
_DATES = "tensors hold numbers; use NumPy's own for dates"
_MATRIX = "NumPy advises against its matrices; arrays of two dimensions and @ do the same"
_INSIDE = "it belongs to NumPy's inner workings"

REASONS = {
    **dict.fromkeys(("char", "strings", "chararray"), _STRINGS),
    **dict.fromkeys(("rec", "recarray", "record"), _RECORDS),
    **dict.fromkeys(
        (
            "busday_count",
            "busday_offset",
            "busdaycalendar",
            "is_busday",
            "datetime_as_string",
            "datetime_data",
            "isnat",
        ),
        _DATES,
    ),
    **dict.fromkeys(("asmatrix", "bmat", "matrix"), _MATRIX),
    **dict.fromkeys(("core", "ctypeslib", "f2py", "test", "memmap", "nditer", "nested_iters"), _INSIDE),
    **dict.fromkeys(("flatiter", "broadcast", "getbufsize", "setbufsize", "get_include", "show_runtime"), _INSIDE),
    "asfortranarray": "tensors are in row-major order",
    "ma": "lucid.masked has tensors with masks",
    "polynomial": "its classes compute in NumPy; np.polyval, polyfit and the others of old are here",
    "emath": "it chooses the type of a result by values; convert to complex numbers first",
}

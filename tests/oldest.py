"""`python -m tests.oldest`: the tests with the oldest version of each package that pyproject.toml allows.

The bounds there are a promise to whoever has an older package already, and nothing else looks at them. Arguments go to pytest, in place of
`-n 3 --dist loadfile -m "not process and not spark"`; the exit code is that of the tests, 0 where the packages cannot be installed (said in a line).
"""

import sys

from tests.environments import prepared, run_tests
from tests.pythons import ROOMS


def main(arguments: list[str]) -> int:
    python = prepared(f"python-{sys.version_info.major}.{sys.version_info.minor}-oldest", oldest=True)
    if python is None:
        return 0
    return run_tests(python, arguments or ROOMS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

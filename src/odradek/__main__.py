"""`python -m odradek`: the command line, where no script is on the path."""

import sys

from odradek.cli.main import main

sys.exit(main())

"""`python -m toolkit VERB` is the command `toolkit VERB`."""

import sys

from toolkit.cli.main import main

sys.exit(main())

"""A worker process: one of several that answer at the same address."""

import logging
import multiprocessing
import os
import sys
import threading

from starlette.applications import Starlette

from .application import create_application
from .log import LOG_FORMAT, LOG_TIME, write_in_background
from .settings import Settings

logger = logging.getLogger(__name__)

SETTINGS_VARIABLE = "FAIRSEQ_HRT_SERVER_SETTINGS"
# Status of a worker that cannot start; uvicorn's, so that it does not try again for ever.
CANNOT_START = 3


def application_from_environment() -> Starlette:
    """The application of a worker process, loaded; the settings come from the process that started
    it.

    Raises:
        SystemExit: a system cannot be loaded; the log tells why.
    """
    _end_with_supervisor()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT, datefmt=LOG_TIME, force=True
    )
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        application = create_application(Settings.from_json(os.environ[SETTINGS_VARIABLE]))
        application.state.server.load()
    except (ValueError, OSError) as error:
        logger.error("error: %s", " ".join(str(error).split()))
        sys.exit(CANNOT_START)
    write_in_background()
    return application


def _end_with_supervisor() -> None:
    """Ends this process with the one that started it, also where that one was killed and could tell
    nobody."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def wait() -> None:
        # For the end of a pipe that the supervisor alone holds: the system closes it in any case.
        supervisor.join()
        os._exit(1)

    threading.Thread(target=wait, name="supervisor", daemon=True).start()

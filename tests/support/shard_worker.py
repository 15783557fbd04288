"""Run the worker of the shared trees in a configuration file: ``python -m support.shard_worker FILE [OPTION...]``."""

from __future__ import annotations

import argparse
import logging
import signal

from integrity.config import load_config
from integrity.files.span import UNLIMITED
from integrity.jobs.pace.throttle import Throttle
from integrity.jobs.report import Stop
from integrity.jobs.shards.worker import WorkerSettings, find_work_folder, make_worker
from integrity.views.objects import finding_object


def main() -> None:
    """Work until nothing is due, or for ever."""
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--until-idle", action="store_true")
    parser.add_argument("--rate", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    stop = Stop()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    config = load_config(options.config)
    pace = Throttle(options.rate, stop) if options.rate else UNLIMITED
    settings = WorkerSettings(find_work_folder(config), jobs=1, pace=pace)
    for root in config.roots:
        make_worker(config, root, settings, finding_object, stop).run(until_idle=options.until_idle)


if __name__ == "__main__":
    main()

"""Serve only the shared trees of a hub: ``python -m support.shard_hub URL STORE PORT FILES LEASE VISIT``."""

from __future__ import annotations

import sys

from integrity.hub.api import BoxApi
from integrity.hub.database import HubDatabase
from integrity.hub.shards.api import ShardApi
from integrity.hub.shards.service import ShardHub
from integrity.hub.shards.store import ShardStore
from integrity.hub.shards.workers import ShardLimits
from integrity.hub.votes import run_vote
from integrity.hub.work import HubWork
from integrity.jobs.shards.survey import Size
from integrity.web.server import serve


def main() -> None:
    """Serve until killed."""
    url, store_folder, port, files, lease_s, visit_s = sys.argv[1:]
    database = HubDatabase.open(url)
    store = ShardStore(store_folder.encode(), 1 << 30)
    store.prepare()
    hub = ShardHub(database, store, ShardLimits(Size(int(files), 1 << 40), int(lease_s), int(visit_s)))

    api = BoxApi(database, HubWork(database, run_vote))
    app = api.make_app(ShardApi(hub, api.guard).routes())
    serve(app, "127.0.0.1", int(port), ready=lambda: print("ready", flush=True))


if __name__ == "__main__":
    main()

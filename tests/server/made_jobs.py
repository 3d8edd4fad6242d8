"""Jobs without HTTP, for tests: made, and looked at."""

import json

from rltui.server.job import document
from rltui.server.table import OVER
from tests.server.conftest import body
from tests.waiting import until
from trainer.rundir import RunPaths, RunReader
from trainer.rundir.disk import replace_file


def make(jobs, config=None, *, idempotency_key=None, key=None, **more):
    return jobs.create(body(config, **more), idempotency_key=idempotency_key, key=key)[0]


def words(jobs, row):
    return document(*jobs.row(row.job_id))["status"]


def ended(jobs, row, *expected):
    until(lambda: row.stage == OVER)
    found = document(*jobs.row(row.job_id))
    assert found["status"] in expected, found["error"]
    return found


def types(jobs, row):
    return [event["type"] for event in RunReader(jobs.folder(row.job_id)).events()]


def write_status(folder, **fields):
    """As a coordinator writes it: whole, for the server looks at any time."""
    replace_file(RunPaths(folder), "status.json", json.dumps(fields).encode())

import os

import msgspec

from trainer.supervisor import child_records


def test_children_are_on_record_with_the_log_that_services_writes():
    roles = ("learner", "learner", "inference", "inference", "taskapp", "model")
    records = child_records([(role, os.getpid(), "") for role in roles])
    names = ["learner-0", "learner-0", "inference-0", "inference-1", "taskapp", "model"]
    assert [record.log for record in records] == [f"logs/{name}.log" for name in names]
    assert [record.rank for record in records] == [0, 1, 0, 1, 0, 0]
    assert {record.start_time for record in records} != {None}


def test_a_child_that_is_gone_is_left_out():
    assert child_records([("learner", 2**22 + 1, "")]) == []


def test_children_on_other_nodes_say_where_and_have_logs_of_their_own():
    records = child_records([("learner", 7, "n1"), ("learner", 7, "n2"), ("taskapp", os.getpid(), "")])
    assert [(record.host, record.log) for record in records[:2]] == [
        ("n1", "logs/learner-0.log"),
        ("n2", "logs/learner-1.log"),
    ]
    # Without a host it is the coordinator's; nobody ends a process here for its number there.
    assert "host" not in msgspec.to_builtins(records[2]) and records[1].start_time == 0

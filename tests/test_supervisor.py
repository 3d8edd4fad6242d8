import os

from trainer.supervisor import child_records


def test_children_are_on_record_with_the_log_that_services_writes():
    roles = ("learner", "inference", "taskapp", "model")
    records = child_records([(role, os.getpid()) for role in roles])
    names = ["logs/learner-0.log", "logs/inference-0.log", "logs/taskapp.log", "logs/model.log"]
    assert [record.log for record in records] == names
    assert {record.start_time for record in records} != {None}


def test_a_child_that_is_gone_is_left_out():
    assert child_records([("learner", 2**22 + 1)]) == []

import pytest

from trainer.taskapp.refusals import extra_fields, field_errors, is_unauthorised, without

from .conftest import request_body


def extra(*loc, kind="extra_forbidden", msg="Extra inputs are not permitted"):
    return {"type": kind, "loc": list(loc), "msg": msg}


def test_exactly_the_forbidden_fields_are_dropped():
    body = request_body()
    answer = {"detail": [extra("body", "policy", "output_mode"), extra("body", "trace_correlation_id")]}
    paths = extra_fields(answer, body)
    assert paths == [("policy", "output_mode"), ("trace_correlation_id",)]
    smaller = without(body, paths)
    assert "trace_correlation_id" not in smaller and "output_mode" not in smaller["policy"]
    assert smaller["run_id"] == "cid-1" and smaller["policy"]["config"] == body["policy"]["config"]
    assert body == request_body() and without(body, ()) is body


def test_older_words_for_the_same():
    answer = {"detail": [extra("body", "mode", kind="value_error.extra", msg="extra fields not permitted")]}
    assert extra_fields(answer, request_body()) == [("mode",)]


@pytest.mark.parametrize(
    "detail",
    [
        [extra("body", "mode"), {"type": "missing", "loc": ["body", "x"], "msg": "Field required"}],
        [extra("body", "nothing", "there")],
        [extra()],
        [],
        "Extra inputs are not permitted",
        None,
        [3],
    ],
)
def test_any_other_422_is_not_about_extra_fields(detail):
    assert extra_fields({"detail": detail}, request_body()) == []


def test_field_errors_name_their_paths():
    answer = {"detail": [{"loc": ["body", "env", 0], "msg": "Field required"}]}
    assert field_errors(answer) == "body.env.0: Field required"
    assert field_errors({"detail": {"error": {"message": "seed 9 is missing"}}}) == "seed 9 is missing"
    assert field_errors({"detail": "no"}) == "no" and field_errors(None) == "no reason given"


def test_the_400_of_older_apps():
    assert is_unauthorised({"detail": {"error": {"code": "unauthorised"}}})
    assert not is_unauthorised({"detail": {"error": {"code": "bad_request"}}})
    assert not is_unauthorised("unauthorised")

import pytest

from trainer.taskapp.llm import ChatClient, ModelCallError, chat_url


@pytest.mark.parametrize(
    ("given", "posted"),
    [
        ("http://h/v1/chat/completions?cid=a", "http://h/v1/chat/completions?cid=a"),
        ("http://h?cid=a&b=%20c", "http://h/v1/chat/completions?cid=a&b=%20c"),
        ("http://h/v1/?cid=a", "http://h/v1/chat/completions?cid=a"),
        ("http://h/cid/a/v1", "http://h/cid/a/v1/chat/completions"),
        ("http://h/base", "http://h/base/v1/chat/completions"),
    ],
)
def test_the_path_is_completed_and_the_query_kept(given, posted):
    assert chat_url(given) == posted


@pytest.fixture
async def chat():
    client = ChatClient()
    yield client
    await client.close()


async def test_in_mode_eval_the_url_is_used_as_it_stands(chat, gateway):
    policy = {"inference_url": f"{gateway.url}?cid=c"}
    await chat.complete(policy, [])
    with pytest.raises(ModelCallError, match="404"):
        await chat.complete(policy, [], mode="eval")
    assert [path for path, _ in gateway.requests] == ["/v1/chat/completions?cid=c"]


async def test_a_completion_is_asked_with_the_policys_sampling(chat, gateway):
    gateway.answer = lambda body: gateway.says("hello", "length")
    policy = {
        "inference_url": f"{gateway.url}/v1/chat/completions?cid=c%2B1",
        "model": "m",
        "temperature": 0.5,
        "max_tokens": 4,
        "stop": None,
        "trace_correlation_id": "c",
    }
    completion = await chat.complete(policy, [{"role": "user", "content": "hi"}])
    assert (completion.text, completion.finish_reason, completion.tool_calls) == ("hello", "length", [])
    path, body = gateway.requests[0]
    assert path == "/v1/chat/completions?cid=c%2B1"
    assert body == {
        "model": "m",
        "temperature": 0.5,
        "max_tokens": 4,
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize(
    ("status", "answer", "code"),
    [
        (
            400,
            {"error": {"code": "context_length_exceeded", "message": "too long"}},
            "context_length_exceeded",
        ),
        (503, {"detail": "down"}, None),
        (200, {"choices": []}, "bad_answer"),
        (200, {"choices": [{"message": "x"}]}, "bad_answer"),
    ],
)
async def test_what_is_no_completion_is_an_error(chat, gateway, status, answer, code):
    gateway.answer = lambda body: (status, answer)
    with pytest.raises(ModelCallError) as caught:
        await chat.complete({"inference_url": gateway.url}, [])
    assert (caught.value.status, caught.value.code) == (status, code)


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1", "nonsense", "http://["])
async def test_no_server_behind_the_url(chat, url):
    with pytest.raises(ModelCallError) as caught:
        await chat.complete({"inference_url": url}, [])
    assert caught.value.status == 0

"""What an app's author does about each exclusion and each warning of WIRE 1.6."""

from __future__ import annotations

FIXES: dict[str, str] = {
    "http_error": "read the app's log for the error behind this status; an answer is 200 with the episode in it",
    "http_rejected": "accept the request that is shown: unknown fields are to be ignored",
    "timeout": "let the episode end in time: put limits on model calls and on the environment, or raise "
    "rollout.timeout_s",
    "bad_json": "answer with one JSON object and nothing around it, of 64 MiB and 2 million values at most; NaN and "
    "infinity are no JSON",
    "wrong_shape": "answer an object with `trajectories` and `metrics` (or `reward_info`)",
    "reward_missing": "set metrics.outcome_reward to the episode's reward",
    "reward_not_finite": "make that reward a finite JSON number, at most 1e18 in size",
    "no_steps": "play at least one step: ask the policy, then step the environment",
    "multiple_trajectories": "answer one request with one episode: exactly one entry in `trajectories`",
    "aborted": "see what made the app give up; success_status is for the episode's play, not for its result",
    "call_aborted": "wait for the whole answer of the policy before the episode ends",
    "app_error": "when a model call fails, answer 502 instead of a reward that is made up",
    "no_recorded_call": "post each model call to policy.config.inference_url as it stands, with its query string",
    "cid_mismatch": "echo the trace_correlation_id and inference_url of this very request, and share nothing "
    "between episodes",
    "engine_error": "the policy failed, not the app: see its message, or choose another --policy",
    "turn_mapping": "give one step for each model call, or put decision_index in the steps",
    "auth": "start the app with the same ENVIRONMENT_API_KEY as this command",
    "route": "serve POST /rollout at this address, or correct services.task_url",
    "request": "accept these fields, or change the config keys that they come from",
    "redirect": "give the final address as services.task_url",
}

WARNING_FIXES: dict[str, str] = {
    "no_id_echo": "put trace_correlation_id in the answer",
    "no_inference_url_echo": "put inference_url in the answer",
    "inference_url_without_cid": "echo the inference URL as it was given, query included",
    "step_meta_missing": "put info.meta.inference_url in each step",
    "malformed_step": "make each entry of trajectories[0].steps an object",
    "empty_event_history": "leave the trace out, or fill its event_history",
    "multiple_episodes": "play one episode for each request: one entry in episode_returns",
    "info_error": "use info.error for faults of the app only",
    "defaulted_reward_mean": "set metrics.outcome_reward",
    "sampling_forced": "leave temperature, top_p and seed to the request's policy config",
    "num_steps_mismatch": "count one step for each model call",
    "more_calls_than_turns": "end the episode at env.config.max_turns",
}


def fix_of(code: str) -> str:
    return FIXES.get(code, "see the request and the answer")

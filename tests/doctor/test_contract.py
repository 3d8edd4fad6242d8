"""Every key and metric that a rule names exists."""

from __future__ import annotations

import re

from rltui.doctor.rules import RULES
from rltui.doctor.rules.policy import REASONS
from rltui.doctor.rules.tokens import PLAIN
from rltui.doctor.ways import WAYS
from rltui.model.edges import EDGES
from tests.doctor.records import CONFIG, record
from tests.doctor.test_rules import FIRES, read
from trainer.config.keys import all_keys

# DESIGN 7, as patterns.
METRIC = re.compile(
    r"reward/(mean|std|max|frac_zero_std|frac_all_good|frac_all_bad|env|event|outcome)"
    r"|gspo/(ratio_(mean|min|max|out_of_band_frac)|clip_(frac_low|frac_high|noise_floor)|loss|kl)"
    r"|logp_gap/(mean|sd)|mismatch_kl/(mean|max)|canary/(slope|residual|undecided|failed)|ess|entropy"
    r"|off_policy/(mean|max|dropped)|batch/trainable_frac|optim/(lr|grad_norm|update_ratio|clipped_frac|skipped)"
    r"|time/(step|wait_for_(batch|policy|judge|straggler|eval)|forward_backward|weight_sync|checkpoint|judge)"
    r"|(trainer|rollouter)/idle_ratio|length/(mean|max|truncated)|turns/mean|stop/[a-z_]+|error/[a-z_]+"
    r"|tokens/(clean|realign|fork|drift|orphan|sampling_forced)|judge/(latency|failed|agreement)"
    r"|eval/(reward_mean|reward_std|episodes)|system/(gpu_util|gpu_mem|alloc_retries|cpu|rss|disk_free_gib)"
)


def test_every_key_is_one_of_the_config():
    named = {key for rule in RULES for key in rule.keys}
    named |= {key for _, keys in REASONS.values() for key in keys} | {key for _, key in EDGES.values()}
    named |= {*PLAIN, *CONFIG} | {key for ways in WAYS.values() for key in ways}
    for id, changes, more, _, _ in FIRES:
        named |= {key for key in read(id, record(changes, **more)).keys if key != "a.b"}
    assert named <= set(all_keys()), named - set(all_keys())


def test_every_metric_is_one_of_the_design():
    named = {name for rule in RULES for name in rule.metrics}
    for id, changes, more, _, _ in FIRES:
        named |= {read(id, record(changes, **more)).metric} - {""}
    assert {name for name in named if not METRIC.fullmatch(name)} == set()


def test_each_rule_is_whole():
    for rule in RULES:
        assert rule.title and rule.cause.endswith(".") and rule.window
        assert len(rule.title) <= 25
    assert set(WAYS) <= {rule.id for rule in RULES}

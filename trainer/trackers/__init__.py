"""Other places where a run's numbers are shown: TensorBoard, Weights & Biases, Trackio. A file each, one small ABC.

metrics.jsonl has every number of every step; a tracker gets one row every `training.log_interval` steps.
"""

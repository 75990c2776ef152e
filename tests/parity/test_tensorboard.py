"""TensorBoard itself reads the event files of a run."""
import glob
import json
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from parity import Case, fptrain


class Events(Case):
    def test_scalars(self):
        with open(self.path("text.txt"), "w", encoding="utf-8") as f:
            f.write("\n\n".join(f"Line {n} of a text." for n in range(400)))
        fptrain("data", "prepare", "--documents", "blank-line", "--tokenizer", "bytes", "--out", self.path("data"), self.path("text.txt"))
        with open(self.path("run.yaml"), "w", encoding="utf-8") as f:
            json.dump({"run": {"directory": self.path("run")}, "data": {"train": [{"path": self.path("data")}], "seq_len": 32},
                       "model": {"family": "gpt", "layers": 1, "hidden": 32, "heads": 2, "max_position": 32},
                       "train": {"steps": 6, "global_batch": 2, "micro_batch": 2}, "eval": {"every": 3}}, f)
        fptrain("train", self.path("run.yaml"))
        with open(self.path("run/metrics.jsonl"), encoding="utf-8") as f:
            metrics = [json.loads(line) for line in f]
        events = EventAccumulator(self.path("run")).Reload()
        self.assertTrue(glob.glob(self.path("run/events.out.tfevents.*")))
        for key, tag in (("loss", "train/loss"), ("lr", "train/learning_rate"), ("grad_norm", "train/grad_norm"),
                         ("val_loss", "validation/loss")):
            self.assertEqual([e.step for e in events.Scalars(tag)], [m["step"] for m in metrics if key in m], key)
            for event, m in zip(events.Scalars(tag), [m for m in metrics if key in m]):
                self.assertAlmostEqual(event.value, m[key], delta=1e-6 * max(abs(m[key]), 1))


if __name__ == "__main__":
    unittest.main()

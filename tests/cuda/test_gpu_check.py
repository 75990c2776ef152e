"""The code of scripts/gpu-check: the order of its table, kept results, and the parsing of other programs' output."""
import json
import os
import sys
import tempfile
import time
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.dont_write_bytecode = True
from gpu_check import common, inside, record, report, speed, store  # noqa: E402


class Shell(common.Section):
    """Steps that are shell commands; those that ran leave a line in a file."""
    name = "shell"

    def __init__(self, *commands):
        self.commands = commands

    def steps(self, context):
        return [common.Step(c, ["sh", "-c", f"echo ran >>{context.path('log')}; {c}"], c, limit=5) for c in self.commands]

    def evaluate(self, context, done, good):
        return [common.Result(self.name, d.step.name, "well") for d in done if good(d.step.group)]


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.context = common.Context("cpu", "ref", "", "", self.folder)

    def lines(self):
        path = os.path.join(self.folder, "log")
        if not os.path.exists(path):
            return 0
        with open(path, encoding="utf-8") as f:
            return len(f.readlines())

    def keep(self, **facts):
        return store.Store(os.path.join(self.folder, "out"), {"device": "cpu", **facts})

    def test_finished_steps_are_not_run_again(self):
        section = Shell("true", "false")
        for _ in range(2):  # the second time from what the first has written
            results = section.run(self.context, self.keep(), time.monotonic() + 60)
            self.assertEqual([r.status for r in results], ["pass", "fail"])
            self.assertEqual(self.lines(), 2)
        logs = os.listdir(os.path.join(self.folder, "out", "logs"))
        self.assertEqual(logs, ["shell-false.txt"])

    def test_a_step_that_time_ran_out_for_is_run_the_next_time(self):
        section = Shell("true")
        results = section.run(self.context, self.keep(), time.monotonic() - 1)
        self.assertEqual([r.status for r in results], ["open"])
        self.assertEqual(self.lines(), 0)
        self.assertEqual([r.status for r in section.run(self.context, self.keep(), time.monotonic() + 60)], ["pass"])
        self.assertEqual(self.lines(), 1)

    def test_what_a_step_made_has_to_be_there_still(self):
        made = os.path.join(self.folder, "made")
        step = common.Step("make", ["sh", "-c", f"echo ran >>{self.context.path('log')}; mkdir -p {made}"], makes=made)
        section = types.SimpleNamespace(steps=lambda _: [step], evaluate=lambda *_: [], unavailable=lambda _: "", name="any", parallel=1)
        for expected in (1, 1):
            common.Section.run(section, self.context, self.keep(), time.monotonic() + 60)
            self.assertEqual(self.lines(), expected)
        os.rmdir(made)
        common.Section.run(section, self.context, self.keep(), time.monotonic() + 60)
        self.assertEqual(self.lines(), 2)

    def test_results_of_another_build_are_refused(self):
        kept = self.keep(programs="one")
        kept.finish("smoke", [common.Result("start", "doctor", "ran")], 1.0)
        self.assertEqual(self.keep(programs="one").results()[0].check, "doctor")
        with self.assertRaisesRegex(store.OtherResults, "programs 'one', now 'two'"):
            self.keep(programs="two")

    def test_a_program_that_breaks_after_its_tests_says_so(self):
        step = common.Step("late", ["sh", "-c", "echo All tests passed; exit 139"])
        self.assertIn("all tests passed, but it ended badly: exit 139", common.run_step(step, time.monotonic() + 60).last_words())


class ReportTest(unittest.TestCase):
    def predictions(self, device):
        return report.Predictions(device)

    def test_the_worst_news_comes_first(self):
        predictions = self.predictions("NVIDIA H100 80GB HBM3")
        step = "gpt2-xl 4x8x1024: step"
        near, far = 1.02 * predictions.figures[f"bench-train: {step}"]["H100"], 3 * predictions.figures["ceilings: copy"]["H100"]
        results = [common.Result("start", "doctor", "ran"), common.Result("ncu", "all of it", "no", status="skipped"),
                   common.Result("bench-train", step, "", figure=near), common.Result("loss", "gpt", "1", "<= 2"),
                   common.Result("ceilings", "copy", "", figure=far), common.Result("ops", "linear", "", status="fail"),
                   common.Result("ops", "some", "", status="open")]
        self.assertEqual([r.check for r in report.worst_first(results, predictions)],
                         ["linear", "some", "copy", step, "gpt", "all of it", "doctor"])
        self.assertEqual(report.cells(results[4], predictions)[4:6], ("2900", "3.00"))

    def test_a_gpu_that_nothing_was_predicted_for_has_no_ratios(self):
        result = common.Result("ceilings", "copy", "", figure=1.0)
        self.assertIsNone(self.predictions("NVIDIA A100-SXM4-80GB").ratio(result))
        self.assertIsNotNone(self.predictions("NVIDIA H200").ratio(result))

    def test_every_prediction_is_of_a_check_that_exists(self):
        """Checks the names that the script itself defines; shapes of ops are fptrain's."""
        with open(os.path.join(ROOT, "scripts/gpu_check/predictions.json"), encoding="utf-8") as f:
            figures = json.load(f)["figures"]
        steps = {f"bench-train: {name}" for step in speed.STEPS for name in (step, speed.with_chunk(step, speed.CHUNK))}
        ops = {f"bench-ops: {model} {batch}x{length}" for model, batch, length in speed.OpSpeed.GPU}
        for key, entry in figures.items():
            self.assertTrue({"H100", "H200"} & set(entry) and "source" in entry, key)
            self.assertTrue(key.startswith("ceilings: ") or key.rsplit(": ", 1)[0] in steps | ops, key)

    def test_recorded_rows_go_below_the_rule(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            with open(page, "w", encoding="utf-8") as f:
                f.write("\n".join(["# Page", "| head |", record.RULE, "| old |", ""]))
            recorded, reported = common.Result("ceilings", "copy", "4100.0 GB/s", figure=4100.0), common.Result("bench-ops", "zero", "4500.0 GB/s", figure=4500.0)
            record.add(page, "NVIDIA H200", [recorded, reported], self.predictions("NVIDIA H200"))
            with open(page, encoding="utf-8") as f:
                lines = f.read().split("\n")
        self.assertEqual(lines[:3], ["# Page", "| head |", record.RULE])
        self.assertIn("| NVIDIA H200 | ceilings | copy | 4100.0 GB/s |  | 4200 | 0.98 | pass |", lines[3])
        self.assertEqual(lines[4], "| old |")

    def test_the_page_has_the_table_that_rows_are_added_to(self):
        with open(os.path.join(ROOT, "docs/gpu-check.md"), encoding="utf-8") as f:
            self.assertIn(record.RULE, f.read().split("\n"))


class ProfilerTest(unittest.TestCase):
    def test_the_last_kernel_of_the_profilers_table_counts(self):
        text = "\n".join(['==PROF== Profiling "norm_kernel"', "step 1.0 ms", '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"',
                          '"0","norm_kernel","Duration","us","41.2"', '"1","norm_kernel","Duration","us","39.9"',
                          '"1","norm_kernel","DRAM Throughput","%","81.5"', '"1","norm_kernel","Something","","7"'])
        self.assertEqual(inside.metrics_of(text), {"ID": "1", "Kernel": "norm_kernel", "Duration": "39.9 us", "DRAM Throughput": "81.5 %"})


if __name__ == "__main__":
    unittest.main()

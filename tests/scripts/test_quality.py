"""scripts/quality: kept results, resumed runs and reported differences, with a fake fptrain."""
import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import quality_runs as runs  # noqa: E402
import quality_table as table  # noqa: E402

STEPS = 80

loader = importlib.machinery.SourceFileLoader("quality", str(HERE.parent.parent / "scripts/quality"))
quality = importlib.util.module_from_spec(importlib.util.spec_from_loader("quality", loader))
loader.exec_module(quality)


class QualityTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        shutil.copy(HERE / "fake_fptrain", self.work)
        (self.work / "king-james.txt").write_text("In the beginning\n", encoding="ascii")
        self.addCleanup(setattr, runs, "TEXT_SHA256", runs.TEXT_SHA256)
        runs.TEXT_SHA256 = hashlib.sha256(b"In the beginning\n").hexdigest()
        self.bench = self.bench_of(STEPS)
        self.bench.prepare()
        # The fake trains on one rank what needs mpirun in earnest.
        for variant in runs.VARIANTS.values():
            self.addCleanup(setattr, variant, "ranks", variant.ranks)
            variant.ranks = 1

    def bench_of(self, steps, **more):
        return runs.Bench(self.work / "fake_fptrain", self.work, steps, 2, "0123456789ab", **more)

    def calls(self, name):
        return (self.work / "fake.log").read_text(encoding="ascii").split().count(name)

    def test_a_result_has_the_curves_and_its_provenance(self):
        made = self.bench.run("fp32", 2)
        kept = json.loads(self.bench.result_file("fp32", 2).read_text(encoding="utf-8"))
        self.assertEqual(kept, made)
        self.assertAlmostEqual(kept["final_loss"], 2 + 1 / STEPS - 0.5 + 0.001 + 0.02)
        self.assertEqual([step for step, _ in kept["train_loss"]], list(range(2, STEPS + 1, 2)))
        self.assertEqual([step for step, _ in kept["held_out_loss"]], list(range(10, STEPS + 1, 10)))
        self.assertEqual((kept["commit"], kept["settings"]["precision.compute"]), ("0123456789ab", "fp32"))
        self.assertEqual(kept["seconds"], STEPS // 2)
        self.assertNotIn(str(self.work), json.dumps(kept))
        self.assertEqual(list(self.work.glob("*/seed-2")), [])

    def test_a_finished_run_is_valid_until_its_variant_or_its_steps_change(self):
        self.bench.run("bf16", 1)
        self.assertIsNotNone(self.bench.result("bf16", 1))
        self.assertIsNone(self.bench.result("bf16", 2))
        self.assertIsNone(self.bench_of(STEPS + 8).result("bf16", 1))
        self.assertIsNone(self.bench_of(STEPS, anew=True).result("bf16", 1))
        runs.VARIANTS["bf16"].settings["optimizer.beta1"] = 0.8
        self.addCleanup(runs.VARIANTS["bf16"].settings.clear)
        self.assertIsNone(self.bench.result("bf16", 1))

    def test_rehearsals_are_not_kept_among_the_results(self):
        self.assertEqual(self.bench_of(runs.STEPS).results, runs.SPEC.parent / "results")
        self.assertEqual(self.bench.results.parent, self.work)

    def test_an_interrupted_run_is_resumed(self):
        with self.assertRaises(runs.Interrupted):
            self.bench.run("bf16", 9)
        self.assertIsNone(self.bench.result("bf16", 9))
        self.assertEqual(self.bench.run("bf16", 9)["train_loss"][-1][0], STEPS)
        self.assertEqual((self.calls("train"), self.calls("eval")), (2, 1))

    def test_a_run_of_another_process_is_left_alone(self):
        folder = self.work / runs.identity("bf16", STEPS) / "seed-3"
        folder.mkdir(parents=True)
        with open(folder / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIsNone(self.bench.run("bf16", 3))
        self.assertIsNotNone(self.bench.run("bf16", 3))

    def test_a_different_text_is_refused(self):
        (self.work / "king-james.txt").write_text("Call me Ishmael\n", encoding="ascii")
        with self.assertRaisesRegex(SystemExit, "is not the text of the kept results"):
            self.bench.prepare()

    def test_the_report_distinguishes_noise_from_differences(self):
        for seed in (1, 2):
            for variant in ("bf16", "bf16-data-2", "fp32"):
                self.bench.run(variant, seed)
        results = table.Results.read(self.bench)
        for value in results.ranges_of_meshes().values():
            self.assertAlmostEqual(value, 0.001)
        text = table.markdown(results)
        self.assertRegex(text, r"\| fp32 \| 1, 2 \| 1\.52850 \| 0\.00500 \|.*\| -0\.50000 \| 0\.00000 \| better \|")
        self.assertRegex(text, r"\| bf16-data-2 \|.*\| \+0\.00100 \|.*\| noise \|")
        self.assertIn("**Noise: 0.00100.**", text)
        picture = table.svg(results)
        self.assertEqual(picture.count('class="band"'), 1)
        self.assertEqual(picture.count('class="line"'), 3 + 2 + 3)  # losses, differences, legend

    def test_a_check_compares_new_runs_with_the_kept_ones(self):
        anew = self.bench_of(STEPS, anew=True)
        with self.assertRaisesRegex(SystemExit, "nothing to compare with is kept for fp32, seed 1"):
            quality.what_to_compare_with(self.bench, ["fp32"], [1])
        for variant in ("bf16", "bf16-data-2", "fp32"):
            self.bench.run(variant, 1)
        noise, losses = quality.what_to_compare_with(self.bench, ["bf16", "fp32"], [1])
        self.assertAlmostEqual(noise, 0.001)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(quality.compare(anew, noise, losses), 2)  # not trained
            anew.run("bf16", 1)
            anew.run("fp32", 1)
            self.assertEqual(quality.compare(anew, noise, losses), 0)
            losses["fp32", 1] += 2 * noise
            self.assertEqual(quality.compare(anew, noise, losses), 1)

    def test_no_difference_is_claimed_below_the_noise_or_its_own_error(self):
        self.assertEqual(table.claim([-0.0020, -0.0021], [0.001, 0.003]), "no difference can be claimed")
        # Three values are 4.2 standard errors from 0, which chance does in more than one of 20 cases.
        self.assertEqual(table.claim([-0.02, -0.05, -0.05], [0.003]), "no difference can be claimed")
        self.assertEqual(table.claim([-0.04, -0.05, -0.05], [0.003]), "better")
        self.assertEqual(table.claim([0.004, 0.0041, 0.0042], [0.003]), "worse")
        self.assertEqual(table.claim([0.004], [0.003]), "not enough runs")
        self.assertEqual(table.claim([0.004, 0.004], []), "not enough runs")

    def test_the_seed_that_chose_a_learning_rate_is_left_out_of_the_comparison(self):
        for variant in ("bf16", "bf16-data-2", "adamw-lr-5e-4", "muon-lr-1e-3", "muon-lr-2e-3"):
            self.bench.run(variant, 1)
        for seed in (2, 3):
            self.bench.run("muon-lr-2e-3", seed)
            self.bench.run("bf16", seed)
        text = table.markdown(table.Results.read(self.bench))
        self.assertIn("| AdamW | 5e-4: 2.02250; 1e-3: 2.02350 | 5e-4, an end of those tried |", text)
        self.assertIn("| Muon | 1e-3: 1.98350; 2e-3: 1.97350 | 2e-3, an end of those tried |", text)
        self.assertNotIn("seeds 2, 3, which did not choose", text)  # AdamW's best has only seed 1
        self.bench.run("adamw-lr-5e-4", 2)
        self.bench.run("adamw-lr-5e-4", 3)
        text = table.markdown(table.Results.read(self.bench))
        self.assertIn("**Muon at 2e-3 against AdamW at 5e-4**, seeds 2, 3, which did not choose the rates: -0.04900", text)
        self.assertNotIn("| muon-lr-2e-3 |", text)

    def test_a_run_that_several_programs_trained_names_them_all(self):
        with self.assertRaises(runs.Interrupted):
            self.bench.run("bf16", 9)
        self.bench.commit = "fedcba987654"
        self.assertEqual(self.bench.run("bf16", 9)["commit"], "0123456789ab and fedcba987654")

    def test_a_check_does_not_continue_a_run_of_another_program(self):
        with self.assertRaises(runs.Interrupted):
            self.bench.run("bf16", 9)
        anew = self.bench_of(STEPS, anew=True)
        with self.assertRaises(runs.Interrupted):
            anew.run("bf16", 9)  # begins anew, and stops half-way
        self.assertEqual(anew.run("bf16", 9)["commit"], "0123456789ab")


if __name__ == "__main__":
    unittest.main()

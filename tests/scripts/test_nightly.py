"""scripts/nightly: the results that it records for parts that pass, fail, continue later or do not end."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))
import nightly_parts  # noqa: E402

loader = importlib.machinery.SourceFileLoader("nightly", str(SCRIPTS / "nightly"))
nightly = importlib.util.module_from_spec(importlib.util.spec_from_loader("nightly", loader))
loader.exec_module(nightly)

SAVES = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("at it", flush=True)
while True: signal.pause()
"""


class NightlyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        for name, value in {"PAGE": work / "nightly.md", "LOGS": work / "logs", "LIMIT": nightly.LIMIT}.items():
            self.addCleanup(setattr, nightly, name, getattr(nightly, name))
            setattr(nightly, name, value)
        nightly.PAGE.write_text("# Page\n\n" + nightly.HEADER, encoding="utf-8")

    def run_parts(self, *parts):
        known, nightly_parts.parts = nightly_parts.parts, lambda: list(parts)
        self.addCleanup(setattr, nightly_parts, "parts", known)
        with contextlib.redirect_stdout(io.StringIO()):
            return [nightly.run(part, "0123456789ab") for part in parts]

    def test_results_are_recorded_once_each_in_the_order_of_the_parts(self):
        good = nightly_parts.Part("good", 1, "", "echo 3 tests passed | cat; echo the end", "passed")
        bad = nightly_parts.Part("bad", 1, "", "echo oops; (exit 3); echo never")
        for _ in range(2):
            self.assertEqual(self.run_parts(good, bad), [True, False])
        rows = nightly.rows()
        self.assertEqual(list(rows), ["good", "bad"])
        self.assertEqual(rows["good"][2:4], ["0123456789ab", "passed; 3 tests passed"])
        self.assertEqual(rows["good"][5], "`echo 3 tests passed \\| cat; echo the end`")
        self.assertEqual(rows["bad"][3], "FAILED (3); oops")
        self.assertTrue(nightly.PAGE.read_text(encoding="utf-8").startswith("# Page\n"))

    def test_a_part_that_saves_when_it_is_stopped_continues_later(self):
        def wait_once_begun(process):
            while "at it" not in (nightly.LOGS / "saves.log").read_text(encoding="utf-8"):
                time.sleep(0.01)
            return wait(process)
        wait, nightly.wait, nightly.LIMIT = nightly.wait, wait_once_begun, 0
        self.addCleanup(setattr, nightly, "wait", wait)
        part = nightly_parts.Part("saves", 1, "", f"true && python3 -c '{SAVES}'")
        self.assertEqual(self.run_parts(part), [False])
        self.assertEqual(nightly.rows()["saves"][3], "continues next time; at it")

    def test_every_part_has_a_unique_name_and_fits(self):
        parts = nightly_parts.parts()
        self.assertEqual(len({p.name for p in parts}), len(parts))
        for part in parts:
            self.assertLess(part.minutes, 50, part.name)
            for word in part.command.split():
                if word.startswith("scripts/"):
                    self.assertTrue((SCRIPTS.parent / word.rstrip(";")).exists(), word)
        for kind in ("fuzz-", "guided-fuzz-"):
            fuzzed = " ".join(p.command for p in parts if p.name.startswith(kind))
            for target in (SCRIPTS.parent / "tests/fuzz").glob("*_fuzz.cpp"):
                self.assertIn(target.name[:-len("_fuzz.cpp")], fuzzed.replace(";", " ").split())


if __name__ == "__main__":
    unittest.main()

"""The fuzz driver reports targets that crash, throw, hang or exhaust memory. argv[1] has a target, "planted", that does so on request."""
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())


class DriverTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        (self.work / "corpus").mkdir()

    def add(self, text):
        (self.work / "corpus" / "one").write_bytes(text)

    def run_driver(self, *options, inputs="corpus"):
        done = subprocess.run([PROGRAM, "planted", *options, inputs], cwd=self.work, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
        return done.returncode, done.stdout.decode(errors="replace")

    def find(self):
        finds = list(self.work.glob("find-*"))
        self.assertEqual(len(finds), 1)
        return finds[0]

    def test_accepted_and_refused_inputs_pass(self):
        for text in (b"sound", b"refuse"):
            self.add(text)
            code, output = self.run_driver()
            self.assertEqual(code, 0, output)
            self.assertIn("nothing broke: 1 files and 0 mutations", output)

    def test_each_failure_is_reported_and_its_input_kept(self):
        for text, message, *options in ((b"crash", "ended by signal 9"), (b"throw", "as no parser may"),
                                     (b"take", "size-too-big|took 3.. MiB"),
                                     (b"hang", "took more than 1 s", "--seconds-each", "1")):
            self.add(text)
            code, output = self.run_driver(*options)
            self.assertEqual(code, 1, output)
            self.assertRegex(output, message)
            self.assertRegex(output, "FAILED: file corpus/one")
            self.assertEqual(self.find().read_bytes(), text)
            self.assertEqual(self.run_driver(*options, inputs=self.find().name)[0], 1)
            self.find().unlink()

    def test_mutations_find_the_same_input_with_the_same_seed(self):
        self.add(b'{"numbers": [1, 2, 30, 400]}')
        finds = []
        for seed in ("7", "7", "8"):
            code, output = self.run_driver("--iterations", "100000", "--seed", seed)
            self.assertEqual(code, 1, output)
            self.assertIn(f"seed {seed}\n", output)
            self.assertRegex(output, rf"FAILED: mutation \d+ of seed {seed} ended by signal 9")
            self.assertIn(b"9223372036854775808", self.find().read_bytes())
            finds.append((re.search(r"mutation \d+", output)[0], self.find().read_bytes()))
            self.find().unlink()
        self.assertEqual(finds[0], finds[1])
        self.assertNotEqual(finds[0], finds[2])

    def test_a_stopped_run_is_resumed_with_its_seed(self):
        self.add(b"sound")
        command = [PROGRAM, "planted", "--minutes", "100", "--seed", "random", "--state", "state", "corpus"]
        with subprocess.Popen(command, cwd=self.work, stdout=subprocess.PIPE) as process:
            seed = process.stdout.readline().split()[1]
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(), 75)
        saved = (self.work / "state").read_bytes().split()
        self.assertEqual(saved[0], seed)
        (self.work / "state").write_text(f"{seed.decode()} 1000 6000.5")
        code, output = self.run_driver("--minutes", "100", "--state", "state")
        self.assertEqual(code, 0, output)
        self.assertIn(f"nothing broke: 1 files and 1000 mutations, seed {seed.decode()}", output)
        self.assertFalse((self.work / "state").exists())

    def test_a_failing_input_fails_again_in_a_resumed_run(self):
        self.add(b'{"numbers": [1, 2, 30, 400]}')
        for _ in range(2):
            code, output = self.run_driver("--minutes", "100", "--seed", "7", "--state", "state")
            self.assertEqual(code, 1, output)
        self.assertEqual(int((self.work / "state").read_text().split()[1]), int(re.search(r"mutation (\d+)", output)[1]))

    def test_wrong_usage_is_reported_with_the_legal_values(self):
        self.add(b"sound")
        for options, message in {("--iterations", "many"): "legal: a number", ("--often",): "unknown option",
                              ("--seed",): "unknown|legal"}.items():
            code, output = self.run_driver(*options)
            self.assertEqual(code, 2, output)
            self.assertRegex(output, message)


if __name__ == "__main__":
    unittest.main()

"""A run of fptrain and the disk that it writes to, for scripts/torture."""
import os
import pathlib
import signal
import subprocess
import time

import small_runs


class Run:
    """fptrain train on some ranks. Its processes are identified by a variable in their environment."""

    def __init__(self, program, arguments, ranks, output, environment=None, last=()):
        """`environment`: variables beside those that all runs have; LD_PRELOAD is for the ranks alone. `last`: more
        arguments, for the last of several ranks."""
        self.program, self.several, self.output = str(program), ranks > 1, output
        self.mark = f"FP_TORTURE={output}.{time.monotonic_ns()}"
        own = dict(environment or {})
        shim = own.pop("LD_PRELOAD", "")
        preload = ["env", f"LD_PRELOAD={shim}"] if shim else []
        command = small_runs.with_ranks([*preload, self.program, *arguments], ranks, last)
        environment = dict(small_runs.environment(), FPTRAIN_CONFIGS=str(small_runs.ROOT / "configs"), **own)
        environment.update([self.mark.split("=", 1)])
        with open(output, "wb") as out:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, start_new_session=True)

    def processes(self):
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and self.mark.encode() in pathlib.Path("/proc", entry, "environ").read_bytes():
                    found.append(int(entry))
            except OSError:
                pass  # it has ended
        return found

    def ranks(self):
        def program_of(pid):
            try:
                return pathlib.Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")[0].decode()
            except OSError:
                return ""
        return sorted(pid for pid in self.processes() if program_of(pid) == self.program)

    def send(self, number, pids):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def send_launcher(self, number):
        if self.running():
            self.process.send_signal(number)

    def running(self):
        return self.process.poll() is None

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait(self, seconds=None):
        """The exit code; None: it has not ended in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def wait_while_alive(self, seconds, signs):
        """The exit code; None: it has not ended, and for so long neither its output nor what signs() returns has changed."""
        seen, changed = None, time.monotonic()
        while (code := self.wait(0.2)) is None and time.monotonic() < changed + seconds:
            now = (self.output.stat().st_size, signs())
            if now != seen:
                seen, changed = now, time.monotonic()
        return code

    def outlived_by(self, seconds):
        """Waits up to `seconds`, after the launcher has ended, for all processes to end; returns those that still run."""
        limit = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < limit:
            time.sleep(0.02)
        return left

    def destroy(self):
        while left := self.processes():
            self.send(signal.SIGKILL, left)
            self.process.poll()
            time.sleep(0.02)


class Disk:
    """A folder that is a small disk of its own where this user may mount one, with a part that can be read-only."""

    SIZE = 64 << 20

    def __init__(self, folder, mounts):
        self.folder, self.mounts = folder, mounts
        folder.mkdir()
        if mounts:
            self._mount("-t", "tmpfs", "-o", f"size={self.SIZE}", "tmpfs", folder)

    @staticmethod
    def _mount(*arguments):
        return subprocess.run(["mount", *map(str, arguments)], stderr=subprocess.DEVNULL, check=False).returncode == 0

    def protectable(self, inner):
        inner.mkdir(parents=True, exist_ok=True)
        if self.mounts and not os.path.ismount(inner):
            self._mount("--bind", inner, inner)

    def protect(self, inner, yes=True):
        # Refused as long as a file is open for writing.
        limit = time.monotonic() + 10
        while not self._mount("-o", f"remount,bind,{'ro' if yes else 'rw'}", inner) and time.monotonic() < limit:
            time.sleep(0.003)

    def leave(self, free):
        """Makes the disk so small that only so many bytes are free; None: as large as at first."""
        s = os.statvfs(self.folder)
        size = self.SIZE if free is None else (s.f_blocks - s.f_bfree) * s.f_frsize + max(free, s.f_frsize)
        self._mount("-o", f"remount,size={int(size)}", self.folder)

    def heal(self, inner):
        if self.mounts:
            self.protect(inner, False)
            self.leave(None)

    def remove(self, inner):
        if self.mounts:
            for path in (inner, self.folder):
                subprocess.run(["umount", path], stderr=subprocess.DEVNULL, check=False)

"""A Slurm cluster of several nodes on this machine, for tests: its own munge, slurmctld and slurmd in one folder."""
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue"]

CONF = """
ClusterName=fptrain-test
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
SlurmctldPort={port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=500000
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
InactiveLimit=0
KillWait=5
SlurmdParameters=config_overrides
NodeName=n[1-{nodes}] NodeHostname={host} Port=[{first}-{last}] CPUs={cpus} RealMemory=4000 State=UNKNOWN
PartitionName=debug Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=n[1-{nodes}] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing():
    """Returns the programs that it needs and that are missing; they may be in a folder that is only in root's PATH."""
    return [p for p in PROGRAMS if shutil.which(p, path=search_path()) is None]


def search_path():
    return os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


def free_ports(count):
    """Returns the first of several consecutive ports that were free a moment ago."""
    for first in range(20000 + os.getpid() % 10000, 60000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as s:
                    s.bind(("", port))
            return first
        except OSError:
            continue
    raise RuntimeError("no free ports")


class Cluster:
    """Nodes n1, n2, ... as a context: started by `with`, and nothing of it is left after."""

    def __init__(self, folder, nodes=4, cpus=2):
        self.folder = pathlib.Path(folder)
        self.names = [f"n{i + 1}" for i in range(nodes)]
        port = free_ports(nodes + 1)
        for sub in ("munge", "state", "spool", "log", *(f"tmp/{name}" for name in self.names)):
            (self.folder / sub).mkdir(parents=True)
        conf = CONF.format(folder=self.folder, host=socket.gethostname().split(".")[0], port=port, first=port + 1,
                           last=port + nodes, nodes=nodes, cpus=cpus)
        (self.folder / "slurm.conf").write_text(conf, encoding="utf-8")
        # Virtual nodes cannot be told from this machine's cgroups.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n", encoding="utf-8")
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"), PATH=search_path())
        self.processes = []

    def __enter__(self):
        try:
            self.start_munge()
            self.daemon("slurmctld", "-D", "-c", "-i")
            for name in self.names:
                self.daemon("slurmd", "-D", "-N", name)
            self.wait_until("all nodes are idle", 30, lambda: self.states() == {"idle"})
        except BaseException:
            self.stop()
            for log in sorted((self.folder / "log").glob("*.out")):
                print(log.read_text(errors="replace")[-500:], end="")
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def daemon(self, *command):
        with open(self.folder / "log" / f"{len(self.processes)}-{command[0]}.out", "wb") as log:
            self.processes.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                                   stderr=subprocess.STDOUT, start_new_session=True))

    def start_munge(self):
        munge = self.folder / "munge"
        key = munge / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        self.daemon("munged", "--foreground", "--force", f"--socket={munge}/socket", f"--key-file={key}",
                    f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        self.wait_until("munge answers", 10, lambda: (munge / "socket").exists())

    def stop(self):
        if len(self.processes) > 1:
            self.slurm("scancel", "--user=root", check=False)
            self.slurm("scancel", "--user=root", "--signal=KILL", "--full", check=False)
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.kill_left()

    def kill_left(self):
        """slurmstepd and what it started outlive slurmd; all of it knows where this cluster's slurm.conf is."""
        mark = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes() and int(path.parent.name) != os.getpid():
                    os.kill(int(path.parent.name), signal.SIGKILL)
            except OSError:
                continue

    def slurm(self, *command, check=True, timeout=30, **more):
        """A command of Slurm's; its output."""
        done = subprocess.run([str(c) for c in command], env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False, **more)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}")
        return done.stdout.strip()

    def states(self):
        return set(self.slurm("sinfo", "-h", "-N", "-o", "%T", check=False).split())

    def job(self, job):
        """Returns the output of scontrol on a job, by key."""
        words = self.slurm("scontrol", "-o", "show", "job", job).split()
        return dict(w.split("=", 1) for w in words if "=" in w)

    def use(self, count):
        """Limits the nodes that accept new jobs."""
        for i, name in enumerate(self.names):
            state = ["State=RESUME"] if i < count else ["State=DRAIN", "Reason=test"]
            drained = "drain" in self.slurm("sinfo", "-h", "-n", name, "-o", "%T")
            if drained != (i >= count):
                self.slurm("scontrol", "update", f"NodeName={name}", *state)

    def wait_until(self, what, seconds, done):
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise RuntimeError(f"after {seconds} s it is not so that {what}")
            time.sleep(0.1)

"""Stages of each plan, cheapest and surest first. All of them run, whatever failed before, but for those whose build failed."""
import dataclasses
import os
import shutil
import subprocess

CORES = len(os.sched_getaffinity(0))


@dataclasses.dataclass
class Stage:
    """A command that passes with code 0, a build, or entries of one."""
    name: str
    command: tuple = ()
    build: tuple = ()  # the preset and its targets
    preset: str = ""  # of entries
    chosen: object = None  # Entry -> bool; what ran in a stage before does not run again
    needs: str = ""  # the stage without which this one cannot run
    limit: float = 600  # seconds, of a command or build
    slots: int = 3  # entries at once

    @property
    def is_build(self):
        return bool(self.build)


def named(*names):
    return lambda entry: entry.name in names


def of_product(entry):
    """What is about the product as users get it: its binary, what calls what, what is packed; and many simulated hosts."""
    return "more" not in entry.labels and ("unit" not in entry.labels or "sim" in entry.labels) and not on_gpu(entry)


def on_gpu(entry):
    return entry.name.startswith("gpu.")


def unit(entry):
    return "unit" in entry.labels and "more" not in entry.labels


def has_gpu():
    tool = shutil.which("nvidia-smi")
    return bool(tool) and subprocess.run([tool, "-L"], capture_output=True, check=False).returncode == 0


CHECKS = [
    Stage("check.format", ("./dev", "lint", "--format")),
    Stage("check.scripts", ("./dev", "lint", "--scripts")),
    Stage("check.runner", ("python3", "-m", "unittest", "discover", "-s", "tests/ci")),
    Stage("build.tidy", build=("release", "tidy"), limit=300),
    Stage("tidy", preset="release", chosen=named("tidy", "tidy.mutants"), needs="build.tidy"),
    Stage("check.lint", ("./dev", "lint", "--changed", "60"), limit=600),
]

PRODUCT = [
    Stage("build.release", build=("release", "ci"), limit=3600),
    Stage("check.generated", ("./dev", "generate", "--check"), needs="build.release"),
    # Lanes are those of RESOURCE_LOCK in tests/CMakeLists.txt.
    Stage("product", preset="release", chosen=of_product, needs="build.release", slots=4),
]
GPU = [
    Stage("build.gpu", build=("release", "device_gpu", "works_gpu", "window_gpu"), needs="build.release", limit=1800),
    Stage("gpu", preset="release", chosen=on_gpu, needs="build.gpu", slots=1),
]

SANITIZED = [
    Stage("build.asan", build=("asan", "unit_tests", "fuzz"), limit=3600),
    # What sanitizers slow down waits for little else.
    Stage("unit", preset="asan", chosen=unit, needs="build.asan", slots=CORES + 1),
    Stage("fuzz", ("./dev", "fuzz", "5"), limit=1800),
]

ARM = ("base", "topology", "kernels", "transport", "runtime", "launcher", "cmd", "sim")

REST = [
    Stage("build.all", build=("release", "all"), limit=3600),
    Stage("more", preset="release", chosen=lambda entry: not on_gpu(entry), needs="build.all", slots=3),
    # Without batches, each source has an object.
    Stage("build.debug", build=("debug", "collctl"), limit=3600),
    Stage("tidy.calls", ("python3", "tests/tidy/calls.py", ".", "build/debug"), needs="build.debug"),
    # What has threads that share memory; the launcher's and the commands' own run with the address sanitizer.
    Stage("build.tsan", build=("tsan", "test_base", "test_kernels", "test_transport", "test_runtime", "test_fake_verbs"), limit=3600),
    Stage("threads", preset="tsan", needs="build.tsan", slots=CORES + 1,
          chosen=lambda entry: bool(entry.labels & {"base", "kernels", "transport", "runtime", "fake_verbs"})),
    # By the cross compiler and QEMU's user mode.
    Stage("build.aarch64", build=("aarch64", "collctl", *(f"test_{name}" for name in ARM)), limit=2 * 3600),
    Stage("aarch64", preset="aarch64", needs="build.aarch64", slots=CORES + 1,
          chosen=lambda entry: unit(entry) and bool(entry.labels & set(ARM))),
    Stage("seeds", ("build/release/tests/test_sim", "--seeds", "100000"), needs="build.all", limit=7200),
    Stage("fuzz.long", ("./dev", "fuzz", "60"), limit=7200),
    Stage("faults.long", ("./dev", "faults", "100", "5000"), needs="build.release", limit=7200),
    Stage("blame.long", ("./dev", "blame"), needs="build.release", limit=7200),
    Stage("field.long", ("./dev", "field", "--whole", "200"), needs="build.release", limit=8 * 3600),
    Stage("promises", ("tests/ci/promises.py", "build/release/collctl"), needs="build.release"),
    Stage("mutants", ("./dev", "mutants", "150"), limit=12 * 3600),
]
NVCC = [
    # The oldest and the newest; the release build has one between them.
    Stage("build.cuda", build=("cuda", "collctl_kernels_cuda_launcher", "collctl_kernels_cuda"), limit=3600),
    Stage("cuda", ("tests/package/check_cuda.sh", "build/cuda/libcollctl_kernels_cuda_verbs.a", "75", "100"), needs="build.cuda"),
]


def stages(plan):
    """Of `product` (./dev test), `sanitized` (what .ci/run adds) or `all`."""
    gpu = GPU if has_gpu() else []
    nvcc = NVCC if shutil.which("nvcc") or os.path.exists("/usr/local/cuda/bin/nvcc") else []
    return {"product": CHECKS + PRODUCT + gpu, "sanitized": SANITIZED,
            "all": CHECKS + PRODUCT + gpu + SANITIZED + REST + nvcc}[plan]

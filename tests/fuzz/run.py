"""Coverage-guided fuzzing of the text readers: python tests/fuzz/run.py [--readers criteo,graph] [--runs 20000]

Needs atheris (pip install atheris), for Linux and macOS. Each reader runs in a process of its own. What it stumbles
over, or takes more than 20 seconds of processor time for, is kept as a file in --to, and the exit code is 1; so it is
when a file keeps it for ten minutes, asleep or not.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
NAMES = ("criteo", "avazu", "table", "graph", "svmlight", "samples", "labels", "ids", "compressed")
"""The readers, not from `readers`: what is imported before atheris looks on has no coverage."""
LONGEST = 20.0
"""Seconds of processor time that a file of 4 KB may take: what else runs on the machine does not end a run."""


def main() -> None:
    """Run the readers one after another, and say what became of their files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readers", default=",".join(NAMES), help="with commas; default: all")
    parser.add_argument("--runs", type=int, default=20_000, help="files for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, default=Path(tempfile.gettempdir()) / "ask-dask-fuzz")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        fuzz(given.readers, given.runs, given.seed, given.to)
    failed = False
    for reader in given.readers.split(","):
        place = given.to / reader
        place.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "--one", "--readers", reader, "--runs", str(given.runs)]
        command += ["--seed", str(given.seed), "--to", str(place)]
        started = time.time()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        counts = place / "counts.json"
        said = json.loads(counts.read_text()) if counts.exists() else {}
        print(f"{reader}: {'found something' if done.returncode else 'nothing found'}, {said}, "
              f"{time.time() - started:.0f} s", flush=True)  # fmt: skip
        if done.returncode:
            failed = True
            log = place / "log.txt"
            print(log.read_text() if log.exists() else done.stderr[-3000:], flush=True)
    sys.exit(failed)


def fuzz(reader: str, runs: int, seed: int, place: Path) -> None:
    """Give one reader as many files; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["ask_dask.ingest"]):
        from fuzz.readers import attempt
        from fuzz.seeds import SEEDS, WORDS, spliced

    corpus, words = place / "corpus", place / "words"
    corpus.mkdir(exist_ok=True)
    for number, text in enumerate(SEEDS[reader]):
        (corpus / f"seed-{number}").write_bytes(text)
    escaped = ["".join(f"\\x{byte:02x}" for byte in word) for word in WORDS if word]
    words.write_text("".join(f'"{word}"\n' for word in escaped))
    counts = {"files": 0, "refused": 0, "with rows set aside": 0, "sound": 0}

    def one(data: bytes) -> None:
        began = time.process_time()
        try:
            found = attempt(reader, data)
            if time.process_time() - began > LONGEST:
                raise TimeoutError(f"A file of {len(data)} bytes took longer than {LONGEST} s.")
        except BaseException:
            (place / f"found-{counts['files']}").write_bytes(data)
            (place / "log.txt").write_text(traceback.format_exc())
            raise
        counts["files"] += 1
        counts["refused" if found is None else "with rows set aside" if found[1] else "sound"] += 1
        if counts["files"] % 500 == 0 or counts["files"] >= runs:
            (place / "counts.json").write_text(json.dumps(counts))

    def mutate(data: bytes, most: int, number: int) -> bytes:
        """In turn the fuzzer's own changes, and words put into a file that may be sound."""
        rng = random.Random(number)
        if rng.random() < 0.5:
            return atheris.Mutate(data, most)
        data = rng.choice([data, *SEEDS[reader]])
        for _ in range(rng.randint(1, 3)):
            data = spliced(data, rng.randrange(4096), rng.randrange(9), rng.choice(WORDS))
        return data[:most]

    options = [f"-runs={runs}", f"-seed={seed}", "-timeout=600", "-max_len=4096", "-len_control=0"]
    options += ["-rss_limit_mb=3000", f"-dict={words}", f"-artifact_prefix={place}/found-"]
    atheris.Setup([sys.argv[0], str(corpus), *options], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

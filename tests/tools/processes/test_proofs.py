"""A proof is there whole or not at all, per key."""

from pathlib import Path

from tools.processes.proofs import forget_proof, load_proof, store_proof
from tools.processes.results import TreeProof

PROOF = {"gone": True, "signalled": [[5, "sleep", 9]], "reaped": 2, "ms": 1.5, "cause": "worker"}


def test_stored_proof_is_found_by_its_key_until_it_is_forgotten(tmp_path: Path) -> None:
    folder = str(tmp_path)
    store_proof(folder, "run/../1", PROOF)
    stored = load_proof(folder, "run/../1")
    assert stored is not None
    assert TreeProof.from_message(stored) == TreeProof(True, ((5, "sleep", 9),), 2, 1.5, "worker")
    assert load_proof(folder, "run/2") is None
    assert len(list(tmp_path.iterdir())) == 1
    forget_proof(folder, "run/../1")
    forget_proof(folder, "run/../1")
    assert load_proof(folder, "run/../1") is None


def test_no_folder_or_a_missing_one_stores_nothing(tmp_path: Path) -> None:
    store_proof(None, "k", PROOF)
    store_proof(str(tmp_path / "absent"), "k", PROOF)
    assert load_proof(str(tmp_path / "absent"), "k") is None

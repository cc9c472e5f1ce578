"""What the machine grants: cores by the limits of control groups."""

import pytest

from runtime import process
from runtime.process import available_cores, temporarily


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "9900000 100000"}, 8),
        ({"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu/a/b/cpu.cfs_quota_us": "-1", "cpu/a/b/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        ({"cpu.max": "1 0"}, 8),
    ],
)
def test_a_quota_counts_as_cores(limits: dict[str, str], cores: int, tmp_path, monkeypatch) -> None:
    for name, text in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "memberships").write_text("4:cpu:/a/b\n3:memory:/x\n0::/a/b\n")
    monkeypatch.setattr(process, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(process, "MEMBERSHIPS", tmp_path / "memberships")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    assert available_cores() == cores


def test_values_are_set_in_a_block_alone_and_other_keys_stay() -> None:
    values = {"kept": 1, "changed": 2}
    with pytest.raises(KeyError, match="an error"), temporarily(values, {"changed": 3, "new": 4}):
        assert values == {"kept": 1, "changed": 3, "new": 4}
        values["of another thread"] = 5
        raise KeyError("an error")
    assert values == {"kept": 1, "changed": 2, "of another thread": 5}

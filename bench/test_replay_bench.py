"""The measure of the replay still works: a lane for a fraction of a second against the echo server.

Speed is not judged here, only that every request is answered and recorded.
"""

import pytest

from bench import server_process


def test_lane_is_measured() -> None:
    pytest.importorskip("pyarrow", reason="a replay needs the spark extra")
    from bench import replay

    with server_process.echo_server(core=None) as echo:
        turn = replay.measure(echo.address, rate=1_000, seconds=0.3)
    assert turn.errors == 0
    assert turn.requests == 300
    assert 0 <= turn.late_p50_us <= turn.late_p99_us <= turn.late_max_us
    assert turn.line().startswith("offered    1000/s  answered")

"""What `fastnode cluster dev` decides and shows, without a process."""

import pytest

from fastnode.cli import dev_plan
from fastnode.cli.cluster_table import Group, Status
from fastnode.cli.dev_plan import Order, Plan
from fastnode.errors import UsageError
from fastnode.settings import load_settings


def status(*leaders: int | None) -> Status:
    groups = tuple(
        Group(number, leader, 1, 1, 1, (1, 2, 3)) for number, leader in enumerate(leaders)
    )
    return Status("5e0c", 1, "healthy", (), groups)


def test_each_node_has_three_ports_in_a_row() -> None:
    shown = [[str(address) for address in place[1:]] for place in dev_plan.places(Plan())]
    assert shown == [
        ["127.0.0.1:9324", "127.0.0.1:9325", "127.0.0.1:9326"],
        ["127.0.0.1:9334", "127.0.0.1:9335", "127.0.0.1:9336"],
        ["127.0.0.1:9344", "127.0.0.1:9345", "127.0.0.1:9346"],
    ]
    assert [place.sqs.port for place in dev_plan.places(Plan(nodes=2, port=80))] == [80, 90]


def test_command_lines_are_those_of_one_cluster() -> None:
    plan = Plan(nodes=2, groups=4)
    _, second = dev_plan.places(plan)
    command, *words = dev_plan.run_arguments(plan, second, "d/node2", "d/secret")
    flags = {
        flag[2:].replace("-", "_"): value
        for flag, value in zip(words[::2], words[1::2], strict=True)
    }
    settings = load_settings(flags, {})
    assert command == "run"
    assert (settings.node_id, settings.groups, settings.data_dir) == (2, 4, "d/node2")
    assert settings.cluster_secret == "d/secret"
    assert (settings.listen, settings.admin, settings.raft) == second[1:]
    assert settings.peer_addresses == {one.node: one.raft for one in dev_plan.places(plan)}


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (Plan(nodes=0), "--nodes must be 1 to 9, not 0"),
        (Plan(nodes=10), "--nodes must be 1 to 9, not 10"),
        (Plan(groups=0), "--groups must be 1 to 256, not 0"),
        (Plan(port=0), "--port must be 1 to 65513, not 0"),
        (Plan(port=65_514), "--port must be 1 to 65513, not 65514"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(plan: Plan, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        dev_plan.check_plan(plan)


def test_the_highest_plan_fits() -> None:
    plan = Plan(nodes=9, port=65_535 - 82)
    dev_plan.check_plan(plan)
    assert dev_plan.places(plan)[-1].raft.port == 65_535


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("", None),
        ("   ", None),
        ("status", Order("status")),
        (" kill  2 ", Order("kill", "2")),
        ("start 3", Order("start", "3")),
        ("leader orders.fifo", Order("leader", "orders.fifo")),
        ("help", Order("help")),
    ],
)
def test_orders(line: str, order: Order | None) -> None:
    assert dev_plan.parse_order(line, Plan()) == order


@pytest.mark.parametrize("line", ["stop", "kill", "kill 1 2", "status 1", "leader"])
def test_what_is_no_order_shows_the_orders(line: str) -> None:
    with pytest.raises(UsageError, match="type one of: kill N, start N, leader NAME"):
        dev_plan.parse_order(line, Plan())


@pytest.mark.parametrize("line", ["kill 0", "kill 4", "start x", "start -1", "kill 01"])
def test_a_node_that_does_not_exist(line: str) -> None:
    with pytest.raises(UsageError, match="the nodes are 1 to 3"):
        dev_plan.parse_order(line, Plan())


def test_lines_name_their_node() -> None:
    assert dev_plan.prefix(1, is_coloured=False) == "node 1 | "
    assert dev_plan.prefix(0, is_coloured=False) == "cluster | "


def test_colours_differ_from_node_to_node() -> None:
    shown = {dev_plan.prefix(node, is_coloured=True) for node in range(4)}
    assert len({text.split("m")[0] for text in shown}) == 4
    assert all(text.endswith("\x1b[0m") for text in shown)


def test_guide_shows_endpoints_processes_and_leads() -> None:
    guide = dev_plan.describe_guide(
        Plan(groups=4), {1: 11, 2: 12, 3: 13}, status(1, 2, 1, None), ".venv/bin/fastnode"
    )
    assert "node 1  http://127.0.0.1:9324  leads 2 of 4 groups  kill -9 11\n" in guide
    assert "node 3  http://127.0.0.1:9344  leads 0 of 4 groups  kill -9 13\n" in guide
    assert "--endpoint-url http://127.0.0.1:9334\n" in guide
    assert ".venv/bin/fastnode cluster status --admin 127.0.0.1:9335\n" in guide


def test_guide_of_one_node() -> None:
    guide = dev_plan.describe_guide(Plan(nodes=1), {1: 11}, status(1), "fastnode")
    assert "--admin 127.0.0.1:9325\n" in guide


@pytest.mark.parametrize(
    ("code", "restart_after", "line"),
    [
        (-9, None, "node 2 has ended by SIGKILL; to start it again, type here: start 2"),
        (1, None, "node 2 has ended with exit code 1; to start it again, type here: start 2"),
        (-9, 1.5, "node 2 has ended by SIGKILL and is started again in 1.5 s"),
    ],
)
def test_end_of_a_node(code: int, restart_after: float | None, line: str) -> None:
    assert dev_plan.describe_end(2, code, restart_after) == line


def test_leader_of_a_queue() -> None:
    plan = Plan(groups=1)
    assert dev_plan.describe_leader("orders", plan, status(3), {3: 13}) == (
        "orders belongs to group 0, which node 3 leads: kill -9 13"
    )
    # Nobody knows better at once: the others still believe in a leader that has just ended.
    assert dev_plan.describe_leader("orders", plan, status(3), {}) == (
        "orders belongs to group 0, which node 3 leads"
    )
    assert "no leader at the moment" in dev_plan.describe_leader("orders", plan, status(0), {})

//! A snapshot replaces a group's state, and the power fails at every moment of it.

mod support;

use std::sync::Arc;

use _raftlog::errors::Error;
use _raftlog::members::Kind;
use _raftlog::node::Node;
use _raftlog::packet::Outbox;
use _raftlog::record::Position;
use _raftlog::snapshots::Restored;
use bytes::Bytes;
use raft::eraftpb::{Message, MessageType};
use support::world::World;
use support::{machines, settings};

/// Node 2 has accepted a snapshot and did nothing about it yet. It has a log of its own that the
/// snapshot overtakes, as far as it is a member already.
fn offered(is_member: bool) -> World {
    let mut world = World::new(1);
    world.calm(4);
    if is_member {
        assert!(world.change(1, Kind::AddLearner, 2));
        world.calm(5);
    }
    for _ in 0..20 {
        world.propose(1);
        world.calm_without(2);
    }
    world.flush(1);
    world.compact(1);
    if !is_member {
        assert!(world.change(1, Kind::AddLearner, 2));
    }
    for _ in 0..200 {
        world.hosts.values_mut().for_each(|host| host.node.tick());
        for id in [1, 2] {
            world.turn(id);
            world.persist(id);
        }
        for (_, to, packet) in std::mem::take(&mut world.wire) {
            world.host(to).node.step(&packet);
        }
        if !world.offers.is_empty() {
            world.offer(0, false);
            world.turn(2);
            assert!(world.hosts[&2].install.is_some());
            return world;
        }
    }
    panic!("no snapshot was offered");
}

#[test]
fn the_power_may_fail_at_every_change_of_the_disk_while_a_snapshot_is_installed() {
    for is_member in [false, true] {
        let mut changes = 0;
        loop {
            let mut world = offered(is_member);
            world.install(2);
            world.install(2);
            world.host(2).disk.burn_fuse(changes);
            world.host(2).node.tick();
            world.turn(2);
            let _ = world.host(2).node.persist_step();
            let was_dark = world.hosts[&2].disk.is_dark();
            world.crash(2);
            world.calm(30);
            world.check_agreement();
            assert_eq!(world.hosts[&2].engine.list, world.canon);
            if !was_dark {
                break;
            }
            changes += 1;
        }
        assert!(changes >= 2, "{changes}");
    }
}

#[test]
fn a_crash_before_the_state_is_replaced_leaves_the_old_one() {
    let mut world = offered(true);
    let before = world.hosts[&2].engine.flushed.1;
    world.crash(2);
    assert_eq!(world.hosts[&2].engine.applied, before);
    // The leader hears of the failure from whoever carried the state.
    world.host(1).node.report_snapshot(0, 2, false).unwrap();
    world.calm(30);
    world.check_agreement();
}

#[test]
fn a_crash_between_state_and_log_is_survived_again_and_again() {
    let mut world = offered(false);
    world.install(2);
    for _ in 0..3 {
        world.crash(2);
        world.turn(2);
    }
    world.calm(30);
    world.check_agreement();
}

#[test]
fn an_older_snapshot_is_answered_with_what_is_committed() {
    let mut world = offered(true);
    // The same offer again, and in the meantime the peer has it all.
    let applied = world.hosts[&1].engine.applied;
    world.install(2);
    world.install(2);
    world.calm(5);
    let packet = {
        let mut message = Message { from: 1, to: 2, ..Message::default() };
        message.term = world.hosts[&1].node.groups()[0].standing().1;
        message.set_msg_type(MessageType::MsgSnapshot);
        let meta = message.mut_snapshot().mut_metadata();
        (meta.index, meta.term) = (applied - 1, 1);
        meta.mut_conf_state().voters = vec![1];
        meta.mut_conf_state().learners = vec![2];
        let mut outbox = Outbox::new(1);
        outbox.put(0, &message);
        outbox.take_offers().remove(0).2
    };
    let node = &mut world.host(2).node;
    assert_eq!(node.step(&packet), Vec::<String>::new());
    let turn = node.ready().unwrap();
    assert!(turn.installs.is_empty());
    assert_eq!(turn.sends.len(), 1);
}

#[test]
fn a_group_that_installs_is_deaf_and_mute() {
    let mut world = offered(true);
    let index = world.hosts[&2].install.as_ref().unwrap().0.position.index;
    for _ in 0..50 {
        world.hosts.values_mut().for_each(|host| host.node.tick());
        world.turn(1);
        world.persist(1);
        for (_, to, packet) in std::mem::take(&mut world.wire) {
            let refused = world.host(to).node.step(&packet);
            assert!(to != 2 || refused[0].contains("being installed"), "{refused:?}");
        }
        let turn = world.host(2).node.ready().unwrap();
        assert!(turn.sends.is_empty() && turn.committed.is_empty() && turn.installs.is_empty());
    }
    let node = &mut world.host(2).node;
    assert!(matches!(node.installed(0, index + 1), Err(Error::Misuse(_))));
    world.install(2);
    world.install(2);
    let node = &mut world.host(2).node;
    assert!(node.ready().unwrap().sends.is_empty(), "the reset is not durable");
    assert!(node.persist_step().unwrap());
    assert_eq!(node.ready().unwrap().sends.len(), 1);
    assert_eq!(node.groups()[0].applied(), index);
    assert!(matches!(node.installed(0, index), Err(Error::Misuse(_))));
    world.calm(10);
    world.check_agreement();
}

#[test]
fn a_reset_gives_back_the_segments_of_old_entries() {
    let mut world = offered(true);
    let held = |world: &mut World| world.host(2).node.log().segments().totals().1;
    assert!(held(&mut world) > 0);
    world.install(2);
    world.install(2);
    assert_eq!(held(&mut world), 0);
}

#[test]
fn a_state_that_is_ahead_of_its_log_is_refused_unless_a_snapshot_explains_it() {
    let disk = _raftlog::simdisk::SimDisk::new(3);
    let open = |applied: u64, restored: Option<Restored>| {
        let mut machines = machines(&[applied]);
        machines[0].restored = restored;
        Node::new(Arc::new(disk.clone()), &settings(2, &[]), &machines, 1 << 16, true)
    };
    let restored = |index| Restored::new(Position { index, term: 3 }, vec![1], vec![2]).ok();
    assert!(matches!(open(9, None), Err(Error::Corrupt(_))));
    assert!(matches!(open(9, restored(8)), Err(Error::Corrupt(_))));
    assert!(matches!(open(7, restored(8)), Err(Error::Corrupt(_))));
    let node = open(9, restored(9)).unwrap();
    assert_eq!(node.groups()[0].store().compacted(), Position { index: 9, term: 3 });
    assert_eq!(node.groups()[0].store().members().state.learners, [2]);
}

#[test]
fn only_a_leader_offers_what_it_has_applied_and_its_log_waits_for_the_taker() {
    let mut world = World::new(2);
    world.calm(4);
    for _ in 0..10 {
        world.propose(1);
        world.calm(1);
    }
    let applied = world.hosts[&1].engine.applied;
    let name = Bytes::from_static(b"state");
    let node = &mut world.host(2).node;
    assert!(matches!(node.snapshot_ready(0, 1, name.clone()), Err(Error::NotLeader)));
    let node = &mut world.host(1).node;
    assert!(matches!(node.snapshot_ready(0, applied + 1, name.clone()), Err(Error::Misuse(_))));
    assert!(matches!(node.snapshot_ready(0, 0, name.clone()), Err(Error::Misuse(_))));
    let long = Bytes::from(vec![0; 4097]);
    assert!(matches!(node.snapshot_ready(0, applied, long), Err(Error::Misuse(_))));
    node.snapshot_ready(0, 5, name).unwrap();
    node.compact(0, applied).unwrap();
    assert_eq!(node.groups()[0].store().compacted().index, 5);
    node.drop_snapshot(0).unwrap();
    node.compact(0, applied).unwrap();
    assert_eq!(node.groups()[0].store().compacted().index, applied);
}

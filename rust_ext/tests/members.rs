//! Groups whose members change: the steps that an operator takes, and the moments at which a crash
//! or a lost message would hurt. Random histories are in `histories.rs`.

mod support;

use _raftlog::errors::Error;
use _raftlog::members::{self, Kind};
use _raftlog::packet::Outbox;
use raft::eraftpb::{ConfState, Entry, Message, MessageType};
use support::world::{IDS, World};

fn grown(seed: u64, size: usize) -> World {
    let mut world = World::new(seed);
    world.calm(4);
    for id in &IDS[1..size] {
        assert!(world.change(1, Kind::AddLearner, *id));
        world.calm(10);
        assert!(world.change(1, Kind::AddVoter, *id));
        world.calm(4);
    }
    world
}

#[test]
fn a_group_grows_to_three_and_shrinks_to_one() {
    let mut world = grown(1, 3);
    assert_eq!(world.members(), Some((vec![1, 2, 3], vec![])));
    world.propose(1);
    world.calm(4);
    for (gone, left) in [(3, vec![1, 2]), (2, vec![1])] {
        assert!(world.change(1, Kind::Remove, gone));
        world.calm(30);
        assert_eq!(world.members(), Some((left, vec![])));
        let state = &world.hosts[&gone].node.groups()[0].store().members().state;
        assert!(!state.voters.contains(&gone), "a removed node knows that it is");
    }
    world.check_agreement();
}

#[test]
fn a_leader_that_is_removed_steps_down_and_the_last_one_leads() {
    let mut world = grown(2, 2);
    assert!(world.change(1, Kind::Remove, 1));
    world.calm(60);
    assert_eq!(world.leader(), Some(2));
    assert_eq!(world.members(), Some((vec![2], vec![])));
    world.check_agreement();
}

#[test]
fn a_learner_catches_up_by_a_snapshot_and_is_promoted() {
    let mut world = grown(3, 1);
    for _ in 0..50 {
        world.propose(1);
        world.calm(1);
    }
    world.flush(1);
    world.compact(1);
    assert!(world.change(1, Kind::AddLearner, 2));
    world.calm(20);
    assert_eq!(world.installs, 1);
    assert_eq!(world.hosts[&2].engine.list, world.canon);
    assert!(world.change(1, Kind::AddVoter, 2));
    world.calm(5);
    assert_eq!(world.members(), Some((vec![1, 2], vec![])));
    world.crash(2);
    world.calm(20);
    world.check_agreement();
}

#[test]
fn a_promotion_that_nobody_heard_of_does_not_end_the_group() {
    let mut world = grown(4, 1);
    assert!(world.change(1, Kind::AddLearner, 2));
    world.calm(10);
    assert!(world.change(1, Kind::AddVoter, 2));
    // The change is committed by the only voter, and its messages are lost with it.
    for _ in 0..4 {
        world.turn(1);
        world.persist(1);
    }
    assert_eq!(world.members(), Some((vec![1, 2], vec![])));
    world.wire.clear();
    world.crash(1);
    world.calm(60);
    assert_eq!(world.members(), Some((vec![1, 2], vec![])));
    world.check_agreement();
}

#[test]
fn a_change_that_was_lost_with_its_leader_can_be_made_by_the_next() {
    let mut world = grown(5, 3);
    let old = world.leader().unwrap();
    assert!(world.change(old, Kind::AddLearner, 4));
    world.turn(old);
    world.wire.clear();
    world.crash(old);
    for _ in 0..60 {
        for id in IDS.into_iter().filter(|id| *id != old) {
            world.host(id).node.tick();
            world.turn(id);
            world.persist(id);
        }
        for (_, to, packet) in std::mem::take(&mut world.wire) {
            if to != old {
                world.host(to).node.step(&packet);
            }
        }
    }
    let new = world.leader().unwrap();
    assert_ne!(new, old);
    world.calm(5);
    let new = world.leader().unwrap();
    assert!(world.change(new, Kind::AddLearner, 4));
    world.calm(20);
    assert_eq!(world.members().unwrap().1, [4]);
    world.check_agreement();
}

#[test]
fn a_second_change_waits_for_the_first() {
    let mut world = grown(6, 1);
    assert!(world.change(1, Kind::AddLearner, 2));
    let busy = world.host(1).node.propose_members(0, Kind::AddLearner, 3);
    assert!(matches!(busy, Err(Error::MembersBusy(_))));
    let early = world.host(1).node.propose_members(0, Kind::AddVoter, 2);
    assert!(matches!(early, Err(Error::MembersBusy(_))));
    world.calm(5);
    let skipped = world.host(1).node.propose_members(0, Kind::AddVoter, 3);
    assert!(matches!(skipped, Err(Error::Misuse(_))));
    let last = world.host(1).node.propose_members(0, Kind::Remove, 1);
    assert!(matches!(last, Err(Error::Misuse(_))));
    let other = world.host(2).node.propose_members(0, Kind::Remove, 1);
    assert!(matches!(other, Err(Error::NotLeader)));
}

#[test]
fn a_node_that_lags_listens_to_a_leader_that_it_does_not_know() {
    let mut world = grown(7, 3);
    let keep = |world: &mut World, ticks: usize, away: u64| {
        for _ in 0..ticks {
            world.calm_without(away);
        }
    };
    for id in [4, 5] {
        assert!(world.change(1, Kind::AddLearner, id));
        keep(&mut world, 10, 3);
        assert!(world.change(1, Kind::AddVoter, id));
        keep(&mut world, 5, 3);
    }
    for gone in [1, 2] {
        let leader = world.leader().unwrap();
        assert!(world.change(leader, Kind::Remove, gone));
        keep(&mut world, 60, 3);
    }
    assert!([4, 5].contains(&world.leader().unwrap()));
    world.calm(60);
    assert_eq!(world.members(), Some((vec![3, 4, 5], vec![])));
    world.check_agreement();
}

#[test]
fn a_wiped_node_does_not_vote_and_comes_back_as_a_learner() {
    let mut world = grown(8, 3);
    world.flush(1);
    world.compact(1);
    world.wipe(3);
    world.crash(1);
    world.crash(2);
    // Two voters are left of three, and both are needed: the wiped one has nothing to say.
    world.calm(60);
    let leader = world.leader().unwrap();
    assert_ne!(leader, 3);
    assert!(world.change(leader, Kind::Remove, 3));
    world.calm(10);
    assert!(world.change(leader, Kind::AddLearner, 3));
    world.calm(20);
    assert!(world.change(leader, Kind::AddVoter, 3));
    world.calm(5);
    assert_eq!(world.members(), Some((vec![1, 2, 3], vec![])));
    world.check_agreement();
}

#[test]
fn members_are_known_after_a_crash_that_took_their_record() {
    let mut world = grown(9, 1);
    assert!(world.change(1, Kind::AddLearner, 2));
    while world.hosts[&1].node.groups()[0].store().members().index == 0 {
        world.persist(1);
        world.turn(1);
    }
    // The state machine is durable, the block with the new members is not.
    world.flush(1);
    world.crash(1);
    assert_eq!(world.hosts[&1].node.groups()[0].store().members().state.learners, [2]);
    world.flush(1);
    world.compact(1);
    world.calm(5);
    world.crash(1);
    world.calm(20);
    assert_eq!(world.members(), Some((vec![1], vec![2])));
    world.check_agreement();
}

#[test]
fn members_are_told_once_they_are_durable() {
    let mut world = grown(12, 1);
    assert!(world.change(1, Kind::AddLearner, 2));
    while world.hosts[&1].node.groups()[0].store().members().index == 0 {
        world.persist(1);
        world.turn(1);
    }
    let learners = |world: &World| world.hosts[&1].told.clone().unwrap().learners;
    world.turn(1);
    assert!(learners(&world).is_empty());
    world.persist(1);
    world.turn(1);
    assert_eq!(learners(&world), [2]);
}

#[test]
fn a_sole_voter_tells_learners_nothing_in_a_term_that_it_could_forget() {
    let mut world = grown(10, 1);
    assert!(world.change(1, Kind::AddLearner, 2));
    world.calm(5);
    world.flush(1);
    world.crash(1);
    assert!(world.hosts[&1].node.groups()[0].is_leader());
    world.turn(1);
    assert!(world.wire.is_empty());
    world.persist(1);
    world.turn(1);
    assert!(!world.wire.is_empty());
}

#[test]
fn who_is_left_alone_leads_only_after_its_entries_are_durable() {
    let mut world = grown(13, 2);
    let pass = |world: &mut World, id: u64| {
        world.turn(id);
        world.persist(id);
        world.turn(id);
        for (_, to, packet) in std::mem::take(&mut world.wire) {
            world.host(to).node.step(&packet);
        }
    };
    assert!(world.change(1, Kind::Remove, 1));
    pass(&mut world, 1);
    world.propose(1);
    pass(&mut world, 2);
    world.turn(1);
    for (_, to, packet) in std::mem::take(&mut world.wire) {
        world.host(to).node.step(&packet);
    }
    world.turn(2);
    let group = &world.hosts[&2].node.groups()[0];
    assert_eq!(group.store().members().state.voters, [2]);
    assert!(group.raft.raft.raft_log.persisted < group.store().last());
    (0..50).for_each(|_| world.host(2).node.tick());
    world.host(2).node.campaign(0).unwrap();
    assert!(!world.hosts[&2].node.groups()[0].is_leader());
    world.calm(40);
    assert_eq!(world.leader(), Some(2));
    world.check_agreement();
}

#[test]
fn a_node_that_joins_says_only_what_it_will_know_after_a_crash() {
    let mut world = World::new(14);
    let founder = ConfState { voters: vec![1], ..ConfState::default() };
    let change = members::propose(&founder, Kind::AddLearner, 2).unwrap();
    let mut append = Message { from: 1, to: 2, term: 50, ..Message::default() };
    append.set_msg_type(MessageType::MsgAppend);
    append.mut_entries().push(Entry { index: 1, term: 50, ..change });
    let mut notice = Message { index: 1, log_term: 50, commit: 1, ..append.clone() };
    notice.clear_entries();
    // That the entry is committed is heard while it is being written.
    for message in [append, notice] {
        let mut outbox = Outbox::new(1);
        outbox.put(0, &message);
        assert_eq!(world.host(2).node.step(&outbox.take()[0].1), Vec::<String>::new());
        world.turn(2);
        assert!(world.wire.is_empty());
    }
    for block in 1..=2 {
        world.persist(2);
        world.turn(2);
        assert_eq!(world.wire.len(), block, "an answer waits for what it tells");
    }
    world.turn(2);
    assert_eq!(world.hosts[&2].node.groups()[0].store().members().state.learners, [2]);
}

fn from(kind: MessageType, from: u64, to: u64) -> Vec<u8> {
    let mut message = Message { from, to, term: 50, ..Message::default() };
    message.set_msg_type(kind);
    let mut outbox = Outbox::new(from);
    outbox.put(0, &message);
    outbox.take().remove(0).1
}

#[test]
fn whom_a_node_listens_to() {
    let mut world = grown(11, 3);
    assert!(world.change(1, Kind::Remove, 3));
    world.calm(5);
    let (vote, beat) = (MessageType::MsgRequestVote, MessageType::MsgHeartbeat);
    let refused = |world: &mut World, kind, sender, to| {
        let reasons = world.host(to).node.step(&from(kind, sender, to));
        reasons.first().cloned().unwrap_or_default()
    };
    assert!(refused(&mut world, vote, 3, 1).contains("not a member"), "it was removed");
    assert_eq!(refused(&mut world, vote, 5, 1), "", "it may have been added");
    assert!(refused(&mut world, MessageType::MsgAppendResponse, 5, 1).contains("not"));
    assert!(refused(&mut world, MessageType::MsgTimeoutNow, 5, 1).contains("not a member"));
    assert!(refused(&mut world, vote, 1, 4).contains("no members yet"));
    assert_eq!(refused(&mut world, beat, 1, 4), "");
}

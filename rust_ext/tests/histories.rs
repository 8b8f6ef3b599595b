//! Random histories of changing members, crashes, lost, repeated and reordered messages, snapshots
//! and nodes that lose their disks: all members agree at every moment and come together in the end.

mod support;

use _raftlog::members::{self, Kind};
use support::world::World;

fn act(world: &mut World) {
    let id = world.pick();
    match world.dice.below(100) {
        0..18 => world.host(id).node.tick(),
        18..45 => world.turn(id),
        45..62 => world.persist(id),
        62..68 => world.propose(id),
        68..70 => world.flush(id),
        70..72 => world.compact(id),
        72 => {
            let to = world.pick();
            drop(world.host(id).node.transfer_leader(0, to));
        }
        73..77 => world.install(id),
        77..79 => {
            let count = world.offers.len() as u64;
            if count > 0 {
                let (at, is_lost) = (world.dice.below(count), world.dice.below(3) == 0);
                world.offer(usize::try_from(at).unwrap(), is_lost);
            }
        }
        79 if world.dice.below(4) == 0 => world.crash(id),
        80..83 => change(world),
        83 => return_wiped(world),
        84 => world.host(id).node.drop_snapshot(0).unwrap(),
        _ => travel(world),
    }
}

fn change(world: &mut World) {
    let Some(leader) = world.leader() else { return };
    let (voters, learners) = world.members().unwrap();
    let node = world.pick();
    if learners.contains(&node) {
        let kind = if world.dice.below(4) == 0 { Kind::Remove } else { Kind::AddVoter };
        world.change(leader, kind, node);
    } else if voters.contains(&node) {
        if voters.len() > 3 || world.dice.below(4) == 0 {
            world.change(leader, Kind::Remove, node);
        }
    } else {
        world.change(leader, Kind::AddLearner, node);
    }
}

/// Who is removed may lose its disk once the leader has said so.
fn return_wiped(world: &mut World) {
    let node = world.pick();
    let Some(leader) = world.leader() else { return };
    let now = &world.hosts[&leader].node.groups()[0].store().members().state;
    let told = world.hosts[&leader].told.as_ref();
    if told.is_some_and(|told| !members::has(told, node) && !members::has(now, node)) {
        world.wire.retain(|(from, to, _)| *from != node && *to != node);
        world.offers.retain(|offer| offer.1 != node);
        world.wipe(node);
    }
}

fn travel(world: &mut World) {
    for _ in 0..4 {
        let count = world.wire.len() as u64;
        if count == 0 {
            return;
        }
        let at = usize::try_from(world.dice.below(count.min(12))).unwrap();
        match world.dice.below(20) {
            0 => drop(world.wire.swap_remove(at)),
            1 => {
                let again = world.wire[at].clone();
                world.wire.push(again);
                world.send(at);
            }
            _ => world.send(at),
        }
    }
}

#[test]
fn all_members_agree_whatever_happens() {
    let (mut installs, mut changes, mut crashes, mut delivered) = (0, 0, 0, 0);
    // More of them on demand: SEEDS=2000 cargo test --release --test histories
    let seeds = std::env::var("SEEDS").map_or(40, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        let mut world = World::new(seed);
        world.calm(3);
        for _ in 0..3 {
            for _ in 0..2500 {
                act(&mut world);
            }
            world.calm(80);
            world.check_agreement();
        }
        installs += world.installs;
        changes += world.changes;
        crashes += world.crashes;
        delivered += world.canon.len();
    }
    println!("{installs} installs, {changes} changes, {crashes} crashes, {delivered} entries");
    assert!(installs > 200 && changes > 800 && crashes > 500 && delivered > 1500);
}

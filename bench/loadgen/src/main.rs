//! The load generator of the whole-node benchmark: options in, load out, one JSON line on stdout.
//!
//! `options` says what to do, `load` does it over sockets (`system` holds the system calls),
//! `flow` decides what a connection sends next, `schedule` when if the loop is open, `identity`
//! makes each request a call of its own, `signing` (over `sha256`) signs what is filled in, `http`
//! and `histogram` are pure, `report` prints.
//! Exit codes: 0 the load ran, 1 it could not run, 2 the options make no sense.

mod connection;
mod flow;
mod histogram;
mod http;
mod identity;
mod load;
mod options;
mod outcome;
mod report;
mod schedule;
mod sha256;
mod signing;
mod system;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => return fail(2, &problem),
    };
    match load::run(&options) {
        Ok(outcome) => {
            println!("{}", report::render(&outcome));
            ExitCode::SUCCESS
        }
        Err(problem) => fail(1, &problem.to_string()),
    }
}

fn fail(code: u8, problem: &str) -> ExitCode {
    eprintln!("loadgen: {problem}");
    ExitCode::from(code)
}

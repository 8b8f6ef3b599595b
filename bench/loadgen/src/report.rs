//! The outcome as one line of JSON; its fields are read by `bench/load.py`.

use std::fmt::Write;

use crate::options::Kind;
use crate::outcome::{GroupTally, Outcome, StepTally};

pub fn render(outcome: &Outcome) -> String {
    let groups: Vec<String> = outcome.groups.iter().map(render_group).collect();
    let failure = outcome
        .first_failure
        .as_deref()
        .map_or("null".into(), quote);
    format!(
        "{{\"elapsed_s\":{},\"client_cpu_s\":{},\"watched_cpu_s\":{},\"sent\":{},\"unsent\":{},\
         \"answered\":{},\"connections_lost\":{},\"first_failure\":{failure},\"groups\":[{}]}}",
        outcome.elapsed_ns as f64 / 1e9,
        outcome.client_cpu_ns as f64 / 1e9,
        outcome.watched_cpu_ns as f64 / 1e9,
        outcome.sent,
        outcome.unsent,
        outcome.answered,
        outcome.connections_lost,
        groups.join(",")
    )
}

fn render_group(group: &GroupTally) -> String {
    let kind = match group.kind {
        Kind::Cycle => "cycle",
        Kind::Consume => "consume",
    };
    let steps: Vec<String> = group.steps.iter().map(render_step).collect();
    format!(
        "{{\"kind\":\"{kind}\",\"connections\":{},\"messages_received\":{},\
         \"messages_deleted\":{},\"receives_empty\":{},\"steps\":[{}]}}",
        group.connections,
        group.counts.received,
        group.counts.deleted,
        group.counts.receives_empty,
        steps.join(",")
    )
}

fn render_step(step: &StepTally) -> String {
    let statuses: Vec<String> = step
        .statuses
        .iter()
        .map(|(status, count)| format!("\"{status}\":{count}"))
        .collect();
    format!(
        "{{\"name\":\"{}\",\"measured\":{},\"refused\":{},\"statuses\":{{{}}},\"p50_us\":{},\
         \"p99_us\":{},\"p999_us\":{},\"max_us\":{}}}",
        step.name,
        step.latencies.count(),
        step.refused,
        statuses.join(","),
        microseconds(step.latencies.percentile(500)),
        microseconds(step.latencies.percentile(990)),
        microseconds(step.latencies.percentile(999)),
        microseconds(step.latencies.largest()),
    )
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    write!(quoted, "\\u{unit:04x}").expect("a String takes any text");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn a_quoted_text_is_plain_ascii_json() {
        assert_eq!(
            quote("a\"b\\\n€𝄞"),
            "\"a\\\"b\\\\\\u000a\\u20ac\\ud834\\udd1e\""
        );
    }
}

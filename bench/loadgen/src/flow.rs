//! What a connection sends next, given what came back; pure, one value per connection.
//!
//! A flow has named steps, so that latencies of different requests are never mixed. `Cycle` repeats
//! the requests of a file. `Consume` receives, then deletes in one batch all that it received.

use std::rc::Rc;

use crate::http;
use crate::options::Kind;
use crate::signing::Signing;

/// The empty list that receipt handles go into, as Python's and as compact JSON writers spell it.
const ENTRIES_MARKS: [&[u8]; 2] = [b"\"Entries\": []", b"\"Entries\":[]"];

/// Index into the names that `step_names` gives for the flow's kind.
pub type Step = usize;
const REQUEST: Step = 0;
const RECEIVE: Step = 0;
const DELETE: Step = 1;

pub fn step_names(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Cycle => &["request"],
        Kind::Consume => &["receive", "delete"],
    }
}

#[derive(Default)]
pub struct Counts {
    pub received: u64,
    pub deleted: u64,
    pub receives_empty: u64,
}

pub enum Flow {
    Cycle(Cycle),
    Consume(Consume),
}

impl Flow {
    /// One flow per connection from the content of a group's file.
    pub fn build(
        kind: Kind,
        file: &[u8],
        connections: usize,
        stop_empty: u32,
    ) -> Result<Vec<Flow>, &'static str> {
        let requests = http::split_requests(file)?;
        if requests.is_empty() {
            return Err("a file without requests");
        }
        if kind == Kind::Cycle {
            let requests = Rc::new(requests);
            return Ok((0..connections)
                .map(|start| Flow::cycle(&requests, start))
                .collect());
        }
        let script = Rc::new(Script::new(&requests)?);
        Ok((0..connections)
            .map(|_| Flow::consume(&script, stop_empty))
            .collect())
    }

    /// Each connection starts elsewhere in the list, so that the mix is even at every moment.
    fn cycle(requests: &Rc<Vec<Vec<u8>>>, start: usize) -> Flow {
        Flow::Cycle(Cycle {
            requests: Rc::clone(requests),
            next: start % requests.len(),
        })
    }

    fn consume(script: &Rc<Script>, stop_empty: u32) -> Flow {
        let script = Rc::clone(script);
        Flow::Consume(Consume {
            script,
            entries: Vec::new(),
            empty_streak: 0,
            stop_empty,
        })
    }

    /// How many requests may be under way at once; what is deleted depends on what was received.
    pub fn depth(&self, wanted: usize) -> usize {
        match self {
            Flow::Cycle(_) => wanted,
            Flow::Consume(_) => 1,
        }
    }

    /// Whether the next request is one that must follow: what was received is always deleted, or it
    /// would come back to a later run.
    pub fn must_send(&self) -> bool {
        matches!(self, Flow::Consume(consume) if !consume.entries.is_empty())
    }

    /// Appends the next request to `out`, or says that this connection has nothing more to send.
    pub fn send(&mut self, out: &mut Vec<u8>) -> Option<Step> {
        match self {
            Flow::Cycle(cycle) => Some(cycle.send(out)),
            Flow::Consume(consume) => consume.send(out),
        }
    }

    pub fn answered(&mut self, step: Step, answer: &http::Answer<'_>, counts: &mut Counts) {
        if let Flow::Consume(consume) = self {
            consume.answered(step, answer, counts);
        }
    }
}

pub struct Cycle {
    requests: Rc<Vec<Vec<u8>>>,
    next: usize,
}

impl Cycle {
    fn send(&mut self, out: &mut Vec<u8>) -> Step {
        out.extend_from_slice(&self.requests[self.next]);
        self.next = (self.next + 1) % self.requests.len();
        REQUEST
    }
}

/// The two requests of a consumer's file: a receive as it is, and a batch delete with no entries.
pub struct Script {
    receive: Vec<u8>,
    delete_head: Vec<u8>,
    delete_signing: Option<Signing>,
    delete_before: Vec<u8>,
    delete_after: Vec<u8>,
}

impl Script {
    fn new(requests: &[Vec<u8>]) -> Result<Self, &'static str> {
        let [receive, delete] = requests else {
            return Err("a consumer's file holds two requests: a receive and a batch delete");
        };
        let (mut delete_head, body) = http::open_request(delete)?;
        let delete_signing = Signing::take(&mut delete_head)?;
        let inside = ENTRIES_MARKS
            .iter()
            .find_map(|mark| http::find(body, mark).map(|start| start + mark.len() - 1))
            .ok_or("the batch delete of a consumer's file has no \"Entries\": []")?;
        Ok(Self {
            receive: receive.clone(),
            delete_head,
            delete_signing,
            delete_before: body[..inside].to_vec(),
            delete_after: body[inside..].to_vec(),
        })
    }

    fn write_delete(&self, entries: &[u8], out: &mut Vec<u8>) {
        let length = self.delete_before.len() + entries.len() + self.delete_after.len();
        let start = out.len();
        out.extend_from_slice(&self.delete_head);
        out.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
        let body = out.len() - start;
        out.extend_from_slice(&self.delete_before);
        out.extend_from_slice(entries);
        out.extend_from_slice(&self.delete_after);
        if let Some(signing) = &self.delete_signing {
            signing.sign(&mut out[start..], body);
        }
    }
}

pub struct Consume {
    script: Rc<Script>,
    entries: Vec<u8>,
    empty_streak: u32,
    stop_empty: u32,
}

impl Consume {
    fn send(&mut self, out: &mut Vec<u8>) -> Option<Step> {
        if !self.entries.is_empty() {
            self.script.write_delete(&self.entries, out);
            self.entries.clear();
            return Some(DELETE);
        }
        if self.stop_empty > 0 && self.empty_streak >= self.stop_empty {
            return None;
        }
        out.extend_from_slice(&self.script.receive);
        Some(RECEIVE)
    }

    fn answered(&mut self, step: Step, answer: &http::Answer<'_>, counts: &mut Counts) {
        if answer.status != 200 {
            return;
        }
        if step == DELETE {
            counts.deleted += deleted_count(answer.body);
            return;
        }
        let received = write_entries(answer.body, &mut self.entries);
        counts.received += received;
        if received == 0 {
            counts.receives_empty += 1;
            self.empty_streak += 1;
        } else {
            self.empty_streak = 0;
        }
    }
}

/// Turns every receipt handle of a receive's body into an entry of a batch delete.
///
/// A message body that quotes the key cannot be mistaken for it: inside a JSON string its quotation
/// marks are escaped.
fn write_entries(body: &[u8], entries: &mut Vec<u8>) -> u64 {
    let mut count = 0;
    let mut rest = body;
    while let Some(position) = http::find(rest, b"\"ReceiptHandle\"") {
        rest = &rest[position + b"\"ReceiptHandle\"".len()..];
        let Some(handle) = string_value(rest) else {
            break;
        };
        if count > 0 {
            entries.push(b',');
        }
        entries.extend_from_slice(format!("{{\"Id\":\"{count}\",\"ReceiptHandle\":\"").as_bytes());
        entries.extend_from_slice(handle);
        entries.extend_from_slice(b"\"}");
        count += 1;
    }
    count
}

/// The raw, still escaped text of the JSON string that follows a key.
fn string_value(bytes: &[u8]) -> Option<&[u8]> {
    let start = bytes.iter().position(|byte| !b" \t\r\n:".contains(byte))?;
    let text = bytes[start..].strip_prefix(b"\"")?;
    let mut index = 0;
    loop {
        match text.get(index)? {
            b'"' => return Some(&text[..index]),
            b'\\' => index += 2,
            _ => index += 1,
        }
    }
}

/// How many ids the list `Successful` of a batch answer holds.
fn deleted_count(body: &[u8]) -> u64 {
    let Some(start) = http::find(body, b"\"Successful\"") else {
        return 0;
    };
    let list = &body[start..];
    let end = list
        .iter()
        .position(|byte| *byte == b']')
        .unwrap_or(list.len());
    let mut rest = &list[..end];
    let mut count = 0;
    while let Some(position) = http::find(rest, b"\"Id\"") {
        count += 1;
        rest = &rest[position + 4..];
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{Counts, Flow, DELETE, RECEIVE};
    use crate::http::{self, Answer};
    use crate::options::Kind;

    const FILE: &[u8] = b"POST / HTTP/1.1\r\nX: receive\r\nContent-Length: 2\r\n\r\n{}\
        POST / HTTP/1.1\r\nX: delete\r\nContent-Length: 29\r\n\r\n{\"QueueUrl\":1,\"Entries\": [] }";

    fn ok(body: &[u8]) -> Answer<'_> {
        Answer {
            status: 200,
            body,
            length: 0,
        }
    }

    fn consumer(stop_empty: u32) -> Flow {
        Flow::build(Kind::Consume, FILE, 1, stop_empty)
            .unwrap()
            .pop()
            .unwrap()
    }

    #[test]
    fn a_consumer_deletes_exactly_what_it_received() {
        let mut flow = consumer(0);
        let mut counts = Counts::default();
        assert_eq!(flow.send(&mut Vec::new()), Some(RECEIVE));
        let body = br#"{"Messages":[{"Body":"\"ReceiptHandle\":\"no\"","ReceiptHandle":"a\"1"},
            {"ReceiptHandle" : "b2"}]}"#;
        flow.answered(RECEIVE, &ok(body), &mut counts);
        let mut out = Vec::new();
        assert!(flow.must_send());
        assert_eq!(flow.send(&mut out), Some(DELETE));
        assert!(!flow.must_send());
        let sent = http::split_requests(&out).unwrap();
        assert_eq!(sent.len(), 1);
        let wanted = br#"{"QueueUrl":1,"Entries": [{"Id":"0","ReceiptHandle":"a\"1"},{"Id":"1","ReceiptHandle":"b2"}] }"#;
        assert!(
            sent[0].ends_with(wanted),
            "{}",
            String::from_utf8_lossy(&sent[0])
        );
        let body = br#"{"Failed":[{"Id":"1"}],"Successful":[{"Id":"0"}]}"#;
        flow.answered(DELETE, &ok(body), &mut counts);
        assert_eq!((counts.received, counts.deleted), (2, 1));
        assert_eq!(flow.send(&mut Vec::new()), Some(RECEIVE));
    }

    #[test]
    fn a_consumer_stops_after_a_streak_of_empty_receives() {
        let mut flow = consumer(2);
        let mut counts = Counts::default();
        for body in [
            &b"{}"[..],
            br#"{"Messages":[{"ReceiptHandle":"a"}]}"#,
            b"{}",
            b"{}",
        ] {
            assert!(flow.send(&mut Vec::new()).is_some());
            flow.answered(RECEIVE, &ok(body), &mut counts);
            if body.len() > 2 {
                assert_eq!(flow.send(&mut Vec::new()), Some(DELETE));
                flow.answered(DELETE, &ok(b"{}"), &mut counts);
            }
        }
        assert_eq!(flow.send(&mut Vec::new()), None);
        assert_eq!(
            (counts.received, counts.deleted, counts.receives_empty),
            (1, 0, 3)
        );
    }

    #[test]
    fn cycling_connections_start_apart_and_wrap() {
        let mut flows = Flow::build(Kind::Cycle, FILE, 3, 0).unwrap();
        let mut sent = Vec::new();
        for flow in &mut flows {
            let mut out = Vec::new();
            assert_eq!(flow.send(&mut out), Some(0));
            sent.push(http::find(&out, b"X: delete").is_some());
        }
        assert_eq!(sent, [false, true, false]);
    }

    #[test]
    fn files_without_the_needed_requests_are_refused() {
        assert!(Flow::build(Kind::Cycle, b"", 1, 0).is_err());
        assert!(Flow::build(Kind::Consume, b"GET / HTTP/1.1\r\n\r\n", 1, 0).is_err());
        assert!(Flow::build(Kind::Consume, &[FILE, FILE].concat(), 1, 0).is_err());
    }
}

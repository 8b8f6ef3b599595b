//! Requests whose body is known only when they are sent are signed then: AWS Signature Version 4.
//!
//! A file says so by a header that is not sent: the signing key of the day, as hexadecimal digits.
//! What is signed is found in the request itself, and the old signature is written over.

use crate::http;
use crate::sha256::{hex, sha256, unhex, Hmac};

const KEY_HEADER: &[u8] = b"x-loadgen-signing-key";
const SIGNATURE: &[u8] = b"Signature=";
const PROBLEM: &str = "a request that cannot be signed anew: it needs an Authorization header of \
    AWS4-HMAC-SHA256 over X-Amz-Date and other headers that it has";

pub struct Signing {
    key: Hmac,
    /// The canonical request up to the hash of the body.
    canonical: Vec<u8>,
    /// The text that is signed, up to the hash of the canonical request.
    to_sign: Vec<u8>,
    /// Where the signature stands in the head.
    position: usize,
}

impl Signing {
    /// Takes the key's header out of the head lines; `None` if there is none.
    pub fn take(head: &mut Vec<u8>) -> Result<Option<Self>, &'static str> {
        let Some(key) = header(head, KEY_HEADER) else {
            return Ok(None);
        };
        let key = unhex(&key).ok_or("a signing key that is not 64 hexadecimal digits")?;
        let kept: Vec<&[u8]> = http::lines(head)
            .filter(|line| http::header_value(line, KEY_HEADER).is_none())
            .collect();
        *head = [kept.join(&b"\r\n"[..]), b"\r\n".to_vec()].concat();
        Self::new(Hmac::new(&key), head).ok_or(PROBLEM).map(Some)
    }

    fn new(key: Hmac, head: &[u8]) -> Option<Self> {
        let authorization = header(head, b"authorization")?;
        let scope = between(&authorization, b"Credential=", b",")?;
        let scope = &scope[http::find(scope, b"/")? + 1..];
        let names = between(&authorization, b"SignedHeaders=", b",")?;
        let mut canonical = b"POST\n/\n\n".to_vec();
        for name in names.split(|byte| *byte == b';') {
            canonical.extend_from_slice(&[name, b":", &header(head, name)?, b"\n"].concat());
        }
        canonical.extend_from_slice(&[b"\n", names, b"\n"].concat());
        let date = header(head, b"x-amz-date")?;
        let to_sign = [b"AWS4-HMAC-SHA256\n", &date[..], b"\n", scope, b"\n"].concat();
        let position = http::find(head, SIGNATURE)? + SIGNATURE.len();
        let has_room = head.len() >= position + 64;
        has_room.then_some(Self {
            key,
            canonical,
            to_sign,
            position,
        })
    }

    /// `request` begins with the head lines that the key was taken out of.
    pub fn sign(&self, request: &mut [u8], body: usize) {
        let canonical = [&self.canonical[..], &hex(&sha256(&request[body..]))].concat();
        let to_sign = [&self.to_sign[..], &hex(&sha256(&canonical))].concat();
        let signature = hex(&self.key.digest(&to_sign));
        request[self.position..self.position + 64].copy_from_slice(&signature);
    }
}

fn header(head: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    http::lines(head)
        .find_map(|line| http::header_value(line, name))
        .map(|value| value.trim_ascii().to_vec())
}

fn between<'a>(text: &'a [u8], before: &[u8], after: &[u8]) -> Option<&'a [u8]> {
    let rest = &text[http::find(text, before)? + before.len()..];
    Some(&rest[..http::find(rest, after)?])
}

#[cfg(test)]
mod tests {
    use super::Signing;
    use crate::http;

    /// Made with the signer of `bench/sqs_requests.py`.
    const HEAD: &str = "POST / HTTP/1.1\r\n\
        X-Loadgen-Signing-Key: ed6bc6b365e084e07595af263e03282b493f8c0295aa1cf388530c3e7327bef6\r\n\
        Host: 127.0.0.1:9324\r\n\
        X-Amz-Target: AmazonSQS.DeleteMessageBatch\r\n\
        Content-Type: application/x-amz-json-1.0\r\n\
        X-Amz-Date: 20260102T030405Z\r\n\
        Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/sqs/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=#\r\n";
    const SIGNED: &str =
        "Signature=a24e1fe16a20908bd66238ec2902031c1cf246ae9841f98039eb23a4ef4dc6e2";

    fn head(signature: &str) -> String {
        HEAD.replace('#', signature)
    }

    #[test]
    fn a_filled_request_gets_the_signature_of_its_body_and_loses_the_key() {
        let mut lines = head(&"0".repeat(64)).into_bytes();
        let signing = Signing::take(&mut lines).unwrap().unwrap();
        assert!(http::find(&lines, b"Loadgen").is_none());
        let body = lines.len() + 2;
        let mut request = [&lines[..], b"\r\n{\"Entries\": [1]}"].concat();
        signing.sign(&mut request, body);
        assert!(http::find(&request, SIGNED.as_bytes()).is_some());
    }

    #[test]
    fn a_request_without_a_key_stays_as_it_is() {
        let mut lines = b"POST / HTTP/1.1\r\nHost: h\r\n".to_vec();
        assert!(Signing::take(&mut lines).unwrap().is_none());
        assert_eq!(lines, b"POST / HTTP/1.1\r\nHost: h\r\n");
    }

    #[test]
    fn a_key_without_a_signature_to_renew_is_refused() {
        let line = format!("X-Loadgen-Signing-Key: {}\r\n", "0".repeat(64));
        assert!(Signing::take(&mut line.into_bytes()).is_err());
        assert!(Signing::take(&mut b"X-Loadgen-Signing-Key: 12\r\n".to_vec()).is_err());
    }
}

//! Every request is a call of its own, though its bytes come from a file that is repeated.
//!
//! A node takes requests with the same `amz-sdk-invocation-id` for attempts of one call and does the
//! call once. So the id of each request that has one is renewed as it is sent.

use crate::http;

const MARK: &[u8] = b"\r\namz-sdk-invocation-id: ";
const DIGITS: usize = 12;

/// Ids that this run has not used before, nor another one that runs beside it.
pub struct Identities {
    next: u64,
}

impl Identities {
    pub fn new(process: u32) -> Self {
        Self {
            next: u64::from(process & 0xffff) << 32,
        }
    }

    /// Writes a new id over the last digits of the one that the request has.
    pub fn renew(&mut self, request: &mut [u8]) {
        let Some(position) = http::find(request, MARK) else {
            return;
        };
        let value = &mut request[position + MARK.len()..];
        let end = value.iter().position(|byte| *byte == b'\r').unwrap_or(0);
        if end >= DIGITS {
            let digits = format!("{:0DIGITS$x}", self.next);
            value[end - DIGITS..end].copy_from_slice(digits.as_bytes());
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Identities;

    #[test]
    fn each_request_gets_the_next_id_and_nothing_else_changes() {
        let mut identities = Identities::new(0x1_2345);
        for last in ["234500000000", "234500000001"] {
            let mut request =
                b"POST / HTTP/1.1\r\namz-sdk-invocation-id: ab-000000000000\r\n\r\n{}".to_vec();
            identities.renew(&mut request);
            let wanted = format!("POST / HTTP/1.1\r\namz-sdk-invocation-id: ab-{last}\r\n\r\n{{}}");
            assert_eq!(request, wanted.as_bytes());
        }
    }

    #[test]
    fn a_request_without_an_id_stays_as_it_is() {
        let mut identities = Identities::new(1);
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\namz-sdk-invocation-id: short\r\n\r\n",
        ] {
            let mut request = text.as_bytes().to_vec();
            identities.renew(&mut request);
            assert_eq!(request, text.as_bytes());
        }
    }
}

//! HTTP/1.1 as far as a load generator needs it: bytes in, one framed request or answer out.
//!
//! Requests are framed by `Content-Length`, answers by that or by chunks; an unframed answer is an
//! error, since guessing its end would count wrong.

use std::borrow::Cow;

const HEAD_BYTES_MAX: usize = 16 * 1024;
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One complete answer at the start of the bytes given to `parse_answer`.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    pub status: u16,
    pub body: Cow<'a, [u8]>,
    pub length: usize,
}

/// `None` while the answer is incomplete.
pub fn parse_answer(bytes: &[u8]) -> Result<Option<Answer<'_>>, &'static str> {
    let Some(head_length) = head_length(bytes)? else {
        return Ok(None);
    };
    let head = &bytes[..head_length];
    let status = status(head).ok_or("an answer that does not begin with HTTP/1.x and a status")?;
    let rest = &bytes[head_length..];
    let framed = match content_length(head)? {
        Some(length) => rest.get(..length).map(|body| (Cow::Borrowed(body), length)),
        None if is_chunked(head) => join_chunks(rest)?.map(|(body, length)| (body.into(), length)),
        None => return Err("an answer with neither Content-Length nor chunks"),
    };
    Ok(framed.map(|(body, length)| Answer {
        status,
        body,
        length: head_length + length,
    }))
}

/// The joined chunks and the length of what held them; trailers are refused like anything unusual.
fn join_chunks(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, &'static str> {
    let mut body = Vec::new();
    let mut rest = bytes;
    loop {
        let Some(line) = find(rest, b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&rest[..line])
            .ok()
            .and_then(|digits| usize::from_str_radix(digits, 16).ok())
            .filter(|size| body.len() + size <= BODY_BYTES_MAX)
            .ok_or("a chunk without a size, or chunks of more than 4 MiB")?;
        let Some(chunk) = rest[line + 2..].get(..size + 2) else {
            return Ok(None);
        };
        if !chunk.ends_with(b"\r\n") {
            return Err("a chunk longer than its size, or a trailer");
        }
        body.extend_from_slice(&chunk[..size]);
        rest = &rest[line + 2 + chunk.len()..];
        if size == 0 {
            return Ok(Some((body, bytes.len() - rest.len())));
        }
    }
}

/// The requests of a file in which raw requests follow each other without separator.
pub fn split_requests(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        let head_length = head_length(bytes)?.ok_or("a request whose head does not end")?;
        let length = head_length + content_length(&bytes[..head_length])?.unwrap_or(0);
        if bytes.len() < length {
            return Err("a request whose body is cut short");
        }
        requests.push(bytes[..length].to_vec());
        bytes = &bytes[length..];
    }
    Ok(requests)
}

/// A request as (head lines without `Content-Length` and without the empty line, body).
pub fn open_request(request: &[u8]) -> Result<(Vec<u8>, &[u8]), &'static str> {
    let head_length = head_length(request)?.ok_or("a request whose head does not end")?;
    let mut head = Vec::new();
    for line in lines(&request[..head_length - 2]) {
        if header_value(line, b"content-length").is_none() {
            head.extend_from_slice(line);
            head.extend_from_slice(b"\r\n");
        }
    }
    Ok((head, &request[head_length..]))
}

/// Where `needle` first occurs.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = needle[0];
    let mut start = 0;
    while let Some(offset) = haystack[start..].iter().position(|byte| *byte == first) {
        start += offset;
        if haystack[start..].starts_with(needle) {
            return Some(start);
        }
        start += 1;
    }
    None
}

fn head_length(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    match find(&bytes[..bytes.len().min(HEAD_BYTES_MAX)], b"\r\n\r\n") {
        Some(position) => Ok(Some(position + 4)),
        None if bytes.len() >= HEAD_BYTES_MAX => Err("a head longer than 16 KiB"),
        None => Ok(None),
    }
}

fn status(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    std::str::from_utf8(rest.get(2..5)?).ok()?.parse().ok()
}

fn content_length(head: &[u8]) -> Result<Option<usize>, &'static str> {
    let Some(value) = lines(head).find_map(|line| header_value(line, b"content-length")) else {
        return Ok(None);
    };
    let length = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    match length {
        Some(length) if length <= BODY_BYTES_MAX => Ok(Some(length)),
        _ => Err("a Content-Length that is no number up to 4 MiB"),
    }
}

fn is_chunked(head: &[u8]) -> bool {
    lines(head)
        .find_map(|line| header_value(line, b"transfer-encoding"))
        .is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

/// The lines of a head, without their ends.
pub fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
}

/// The value, if this line is a header of that name.
pub fn header_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if line.len() > name.len() && line[name.len()] == b':' {
        let (found, value) = line.split_at(name.len());
        return found.eq_ignore_ascii_case(name).then(|| &value[1..]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{open_request, parse_answer, split_requests};

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nDate: x\r\ncontent-length: 5\r\n\r\nhello";

    #[test]
    fn an_answer_is_complete_only_with_its_last_byte() {
        for cut in 0..ANSWER.len() {
            assert_eq!(parse_answer(&ANSWER[..cut]), Ok(None), "{cut}");
        }
        let more = [ANSWER, b"HTTP/1.1 4"].concat();
        let answer = parse_answer(&more).unwrap().unwrap();
        assert_eq!(
            (answer.status, &*answer.body, answer.length),
            (200, &b"hello"[..], ANSWER.len())
        );
    }

    #[test]
    fn chunks_are_joined_when_the_last_one_is_there() {
        let whole =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse_answer(&whole[..cut]), Ok(None), "{cut}");
        }
        let more = [whole, &b"HTTP/1.1 4"[..]].concat();
        let answer = parse_answer(&more).unwrap().unwrap();
        assert_eq!((&*answer.body, answer.length), (&b"hello"[..], whole.len()));
    }

    #[test]
    fn chunks_that_lie_about_their_size_are_errors() {
        for chunks in [
            "x\r\n",
            "-1\r\n",
            "1\r\nabc",
            "0\r\nA: trailer\r\n",
            "400001\r\n",
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
            assert!(parse_answer(answer.as_bytes()).is_err(), "{chunks}");
        }
    }

    #[test]
    fn unframed_and_foreign_answers_are_errors() {
        assert!(parse_answer(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").is_err());
        assert!(parse_answer(b"SSH-2.0\r\nContent-Length: 0\r\n\r\n").is_err());
        assert!(parse_answer(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n").is_err());
        assert!(parse_answer(&[b'a'; 16 * 1024]).is_err());
    }

    #[test]
    fn requests_in_one_file_are_split_by_their_length() {
        let file = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabGET / HTTP/1.1\r\n\r\n";
        let requests = split_requests(file).unwrap();
        assert_eq!(requests.len(), 2);
        assert!(requests[0].ends_with(b"\r\n\r\nab"));
        assert!(split_requests(&file[..38]).is_err());
    }

    #[test]
    fn an_opened_request_loses_only_its_length() {
        let (head, body) =
            open_request(b"POST / HTTP/1.1\r\nA: 1\r\nContent-Length: 2\r\nB: 2\r\n\r\nab")
                .unwrap();
        assert_eq!(head, b"POST / HTTP/1.1\r\nA: 1\r\nB: 2\r\n");
        assert_eq!(body, b"ab");
    }
}

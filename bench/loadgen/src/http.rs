//! HTTP/1.1 as far as a load generator needs it: bytes in, one framed request or answer out.
//!
//! Only `Content-Length` framing; a chunked or unframed answer is an error, since guessing its end
//! would count wrong.

const HEAD_BYTES_MAX: usize = 16 * 1024;
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One complete answer at the start of the bytes given to `parse_answer`.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    pub status: u16,
    pub body: &'a [u8],
    pub length: usize,
}

/// `None` while the answer is incomplete.
pub fn parse_answer(bytes: &[u8]) -> Result<Option<Answer<'_>>, &'static str> {
    let Some(head_length) = head_length(bytes)? else {
        return Ok(None);
    };
    let head = &bytes[..head_length];
    let status = status(head).ok_or("an answer that does not begin with HTTP/1.x and a status")?;
    let body_length = content_length(head)?.ok_or("an answer without Content-Length")?;
    let length = head_length + body_length;
    if bytes.len() < length {
        return Ok(None);
    }
    Ok(Some(Answer {
        status,
        body: &bytes[head_length..length],
        length,
    }))
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
            (answer.status, answer.body, answer.length),
            (200, &b"hello"[..], ANSWER.len())
        );
    }

    #[test]
    fn unframed_and_foreign_answers_are_errors() {
        assert!(parse_answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
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

//! SHA-256 and HMAC over it, for requests that are signed as they are sent.

const BLOCK: usize = 64;
const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
#[rustfmt::skip]
const ROUND: [u32; BLOCK] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

pub type Digest = [u8; 32];

/// The hash of a text that begins with `prefix`, of whole blocks, which is already in `state`.
fn finish(mut state: [u32; 8], prefix: usize, text: &[u8]) -> Digest {
    let whole = text.len() / BLOCK * BLOCK;
    for block in text[..whole].chunks_exact(BLOCK) {
        mix(&mut state, block);
    }
    let mut tail = text[whole..].to_vec();
    tail.push(0x80);
    while tail.len() % BLOCK != BLOCK - 8 {
        tail.push(0);
    }
    tail.extend_from_slice(&(((prefix + text.len()) * 8) as u64).to_be_bytes());
    for block in tail.chunks_exact(BLOCK) {
        mix(&mut state, block);
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn mix(state: &mut [u32; 8], block: &[u8]) {
    let mut words = [0_u32; BLOCK];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for index in 16..BLOCK {
        let (late, early) = (words[index - 15], words[index - 2]);
        let low = late.rotate_right(7) ^ late.rotate_right(18) ^ (late >> 3);
        let high = early.rotate_right(17) ^ early.rotate_right(19) ^ (early >> 10);
        words[index] = words[index - 16]
            .wrapping_add(low)
            .wrapping_add(words[index - 7])
            .wrapping_add(high);
    }
    let mut now = *state;
    for (word, constant) in words.iter().zip(ROUND) {
        let [s0, s1, s2, s3, s4, s5, s6, s7] = now;
        let choice = (s4 & s5) ^ (!s4 & s6);
        let first = (s4.rotate_right(6) ^ s4.rotate_right(11) ^ s4.rotate_right(25))
            .wrapping_add(s7)
            .wrapping_add(choice)
            .wrapping_add(constant)
            .wrapping_add(*word);
        let majority = (s0 & s1) ^ (s0 & s2) ^ (s1 & s2);
        let second =
            (s0.rotate_right(2) ^ s0.rotate_right(13) ^ s0.rotate_right(22)).wrapping_add(majority);
        now = [
            first.wrapping_add(second),
            s0,
            s1,
            s2,
            s3.wrapping_add(first),
            s4,
            s5,
            s6,
        ];
    }
    for (word, more) in state.iter_mut().zip(now) {
        *word = word.wrapping_add(more);
    }
}

pub fn sha256(text: &[u8]) -> Digest {
    finish(START, 0, text)
}

/// HMAC with a key of 32 bytes, whose two blocks are mixed once for all texts.
pub struct Hmac {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl Hmac {
    pub fn new(key: &Digest) -> Self {
        let mixed = |pad: u8| {
            let mut block = [pad; BLOCK];
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
            let mut state = START;
            mix(&mut state, &block);
            state
        };
        Self {
            inner: mixed(0x36),
            outer: mixed(0x5c),
        }
    }

    pub fn digest(&self, text: &[u8]) -> Digest {
        finish(self.outer, BLOCK, &finish(self.inner, BLOCK, text))
    }
}

pub fn hex(digest: &Digest) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

pub fn unhex(text: &[u8]) -> Option<Digest> {
    let mut digest = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::{hex, sha256, unhex, Hmac};

    fn shown(digest: [u8; 32]) -> String {
        String::from_utf8(hex(&digest).to_vec()).unwrap()
    }

    #[test]
    fn known_digests_come_out() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let a1000 = "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3";
        assert_eq!(shown(sha256(b"")), empty);
        assert_eq!(shown(sha256(b"abc")), abc);
        assert_eq!(shown(sha256(&[b'a'; 1000])), a1000);
        assert_eq!(shown(unhex(abc.as_bytes()).unwrap()), abc);
    }

    #[test]
    fn a_known_hmac_comes_out() {
        let wanted = "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7";
        assert_eq!(shown(Hmac::new(&[0x0b; 32]).digest(b"Hi There")), wanted);
    }
}

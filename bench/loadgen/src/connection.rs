//! One socket with what is written to it and awaited from it; decides nothing.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::flow::{Flow, Step};

pub struct Connection {
    /// `None` once the server has closed it.
    pub stream: Option<TcpStream>,
    pub flow: Flow,
    pub group: usize,
    pub inbound: Vec<u8>,
    pub outbound: Vec<u8>,
    written: usize,
    pub under_way: VecDeque<(Step, Instant)>,
    /// How often it stands in the list of those that may send; only an open loop has one.
    pub listed: usize,
}

impl Connection {
    pub fn new(stream: TcpStream, flow: Flow, group: usize) -> Self {
        Self {
            stream: Some(stream),
            flow,
            group,
            inbound: Vec::new(),
            outbound: Vec::new(),
            written: 0,
            under_way: VecDeque::new(),
            listed: 0,
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        while self.written < self.outbound.len() {
            match stream.write(&self.outbound[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.outbound.clear();
        self.written = 0;
        Ok(())
    }
}

//! Asks weir over HTTP, with nothing but std: `Limit::new(weir, "api", false).ask("192.0.2.1")`.
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(500);
const HEAD_LINES_MOST: usize = 64;

/// What to do with a request: pass it on if the status is 204, else reply with the status. The
/// fields (RateLimit, RateLimit-Policy, Retry-After) go into the reply either way.
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
}

pub struct Limit {
    weir: SocketAddr,
    name: String,
    closed: bool,
}

impl Limit {
    /// Without weir requests pass, or are refused with 503 if closed.
    pub fn new(weir: SocketAddr, name: &str, closed: bool) -> Limit {
        Limit { weir, name: name.to_string(), closed }
    }

    /// May this client's request pass? An error is a limit that weir does not know, for example.
    pub fn ask(&self, client: &str) -> Result<Answer, String> {
        let none = |_| if self.closed {
            Answer { status: 503, fields: vec![("retry-after".into(), "1".into())] }
        } else {
            Answer { status: 204, fields: vec![] }
        };
        let answer = self.get(client).unwrap_or_else(none);
        match answer.status {
            204 | 429 | 503 => Ok(answer),
            status => Err(format!("weir: {} for the limit {}", status, self.name)),
        }
    }

    fn get(&self, client: &str) -> io::Result<Answer> {
        let client: String = client.chars().filter(|c| !c.is_control()).collect();
        let mut stream = TcpStream::connect_timeout(&self.weir, SHORT)?;
        stream.set_read_timeout(Some(SHORT))?;
        stream.write_all(format!(
            "GET /v1/auth/{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Forwarded-For: {}\r\n\r\n",
            self.name, self.weir, client).as_bytes())?;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not an answer of HTTP");
        let mut lines = BufReader::new(stream).lines().take(HEAD_LINES_MOST);
        let first = lines.next().ok_or_else(bad)??;
        let status = first.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(bad)?;
        let mut fields = Vec::new();
        for line in lines {
            let line = line?;
            match line.split_once(": ") {
                Some((name, value)) => {
                    let name = name.to_ascii_lowercase();
                    if name.starts_with("ratelimit") || name == "retry-after" {
                        fields.push((name, value.to_string()));
                    }
                }
                None => break,
            }
        }
        Ok(Answer { status, fields })
    }
}

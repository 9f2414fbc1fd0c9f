//! The testkit's own connection: a RESP2 client that knows no more than tests need.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::patience;
use crate::reply::Reply;

/// A connection as the testkit's own user, who may do everything.
pub struct Admin {
    stream: BufReader<TcpStream>,
}

impl Admin {
    /// Connects and logs in.
    ///
    /// # Errors
    /// When nothing listens there, the password is wrong or the server is silent for five seconds.
    pub async fn connect(address: &str, user: &str, password: &str) -> io::Result<Self> {
        let hello = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let mut admin = Self { stream: BufReader::new(stream) };
            let login = if user.is_empty() { vec!["AUTH", password] } else { vec!["AUTH", user, password] };
            // An address without credentials: the default user needs none.
            let login = if password.is_empty() { vec!["PING"] } else { login };
            match admin.try_call(&login).await? {
                Reply::Error(text) => Err(io::Error::new(io::ErrorKind::PermissionDenied, text)),
                _ => Ok(admin),
            }
        };
        match tokio::time::timeout(patience(Duration::from_secs(5)), hello).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer to AUTH")),
        }
    }

    /// Sends one command and gives the server's reply, an error reply included.
    ///
    /// # Panics
    /// When the connection fails.
    pub async fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Reply {
        match self.try_call(words).await {
            Ok(reply) => reply,
            Err(error) => panic!("the admin connection failed: {error}"),
        }
    }

    /// Sends one command; a failing connection is an error, an error reply is a reply.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn try_call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).await?;
        self.try_next().await
    }

    /// The next reply that nobody asked for: a message after `SUBSCRIBE`, an answer that was not awaited.
    ///
    /// # Panics
    /// When the connection fails.
    pub async fn next(&mut self) -> Reply {
        match self.try_next().await {
            Ok(reply) => reply,
            Err(error) => panic!("the admin connection failed: {error}"),
        }
    }

    /// As [`Admin::next`]; a failing connection is an error.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn try_next(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| garbled(line))?;
        let size = || rest.parse::<i64>().map_err(|_| garbled(line));
        match kind {
            "+" => Ok(Reply::Simple(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Int(size()?)),
            "$" | "*" => match (kind, usize::try_from(size()?)) {
                (_, Err(_)) => Ok(Reply::Nil),
                ("$", Ok(len)) => {
                    let mut bytes = vec![0; len + 2];
                    self.stream.read_exact(&mut bytes).await?;
                    bytes.truncate(len);
                    Ok(Reply::Bulk(bytes))
                }
                (_, Ok(len)) => {
                    let mut items = Vec::with_capacity(len);
                    for _ in 0..len {
                        items.push(Box::pin(self.try_next()).await?);
                    }
                    Ok(Reply::Array(items))
                }
            },
            _ => Err(garbled(line)),
        }
    }
}

fn garbled(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP2: {line:?}"))
}

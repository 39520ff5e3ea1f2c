//! A worker's process: lines in, lines out, time limits, and its last words.

use super::error::{BaselineError, Ended};
use super::exchange::{Exchange, Outgoing, TensorLine};
use super::protocol::{Hello, LONGEST_LINE, Request, Response, VERSION};
use super::tensor::{Tensor, TensorError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a worker may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time until it says hello: imports of large libraries.
    pub start: Duration,
    /// Time for each operation, unless the call gives its own.
    pub operation: Duration,
    /// Bytes of one tensor.
    pub tensor_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            start: Duration::from_secs(180),
            operation: Duration::from_secs(600),
            tensor_bytes: 8 << 30,
        }
    }
}

/// What came back, and how long it took from here.
#[derive(Clone, Copy, Debug)]
pub struct Answer<T> {
    /// The answer.
    pub value: T,
    /// Seconds from before the request was written until its answer was read, by the driver's clock.
    pub round_trip_s: f64,
}

/// How long a worker has to leave by itself once its input has ended.
const LEAVE: Duration = Duration::from_secs(2);
/// How often a silent worker is looked at.
const GLANCE: Duration = Duration::from_millis(250);
/// Lines of stderr that are kept, and bytes of each.
const STDERR_LINES: usize = 30;
const STDERR_WIDTH: usize = 500;

enum Line {
    Whole(Vec<u8>),
    TooLong(Vec<u8>),
}

/// A running worker.
pub struct Worker {
    name: String,
    child: Child,
    requests: Option<Sender<Vec<u8>>>,
    lines: Receiver<Line>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    exchange: Exchange,
    hello: Hello,
    limits: Limits,
    next: u64,
    /// The error after which nothing more is asked.
    ended: Option<String>,
}

impl Worker {
    /// Starts `command` as the worker `name` and waits for its hello. The exchange folder is told in
    /// `METILE_EXCHANGE`, the limits of lines and tensors in `METILE_LONGEST_LINE` and `METILE_TENSOR_BYTES`.
    ///
    /// # Errors
    /// If it can't be started, or says no hello of this protocol and name in time.
    pub fn spawn(
        name: &str,
        mut command: Command,
        limits: Limits,
    ) -> Result<Worker, BaselineError> {
        let exchange = Exchange::create(limits.tensor_bytes).map_err(|(path, source)| {
            BaselineError::File { doing: "making the exchange folder", path, source }
        })?;
        let mut child = command
            .env("METILE_EXCHANGE", exchange.folder())
            .env("METILE_LONGEST_LINE", LONGEST_LINE.to_string())
            .env("METILE_TENSOR_BYTES", limits.tensor_bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| BaselineError::Start {
                baseline: name.to_owned(),
                program: command.get_program().to_string_lossy().into_owned(),
                source,
            })?;
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let (requests, to_write) = channel();
        // Two lines at most wait to be read: a worker that floods is held back by its pipe.
        let (read, lines) = sync_channel(2);
        if let Some(input) = child.stdin.take() {
            std::thread::spawn(move || write_requests(input, &to_write));
        }
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || read_lines(output, |line| read.send(line).is_ok()));
        }
        if let Some(errors) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            std::thread::spawn(move || keep_last_lines(errors, &kept));
        }
        let hello = Hello {
            protocol: 0,
            worker: String::new(),
            operations: Vec::new(),
            versions: Default::default(),
            settings: Default::default(),
        };
        let mut worker = Worker {
            name: name.to_owned(),
            child,
            requests: Some(requests),
            lines,
            stderr,
            exchange,
            hello,
            limits,
            next: 1,
            ended: None,
        };
        let line = worker.line("hello", limits.start)?;
        let parsed: Result<Response, _> = serde_json::from_slice(&line);
        // A worker whose library can't be imported says so in place of its hello.
        if let Ok(Response { error: Some(error), .. }) = parsed {
            return Err(BaselineError::Refused {
                baseline: name.to_owned(),
                op: "hello".to_owned(),
                kind: error.kind,
                message: error.message,
            });
        }
        let hello: Hello = serde_json::from_slice(&line)
            .map_err(|error| worker.malformed("hello", &format!("is no hello ({error})"), &line))?;
        if hello.protocol != VERSION {
            let why = format!("speaks protocol {}, not {VERSION}", hello.protocol);
            return Err(worker.malformed("hello", &why, &line));
        }
        if hello.worker != name {
            let why = format!("is of the worker {:?}", hello.worker);
            return Err(worker.malformed("hello", &why, &line));
        }
        worker.hello = hello;
        Ok(worker)
    }

    /// The baseline's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Whether tensors travel through memory; if not, through a disk, which a report should say.
    pub fn uses_shared_memory(&self) -> bool {
        self.exchange.is_shared_memory()
    }

    /// The id of its process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a tensor for it. The file is there as long as what is returned.
    ///
    /// # Errors
    /// If it is too large or can't be written.
    pub(super) fn put(&mut self, op: &str, tensor: &Tensor) -> Result<Outgoing, BaselineError> {
        self.exchange.put(tensor).map_err(|source| self.tensor_error(op, source))
    }

    /// Reads a tensor that an answer named.
    ///
    /// # Errors
    /// If it is not what was announced. The worker is then not used again.
    pub(super) fn take(&mut self, op: &str, line: &TensorLine) -> Result<Tensor, BaselineError> {
        self.exchange.take(line).map_err(|source| {
            let error = self.tensor_error(op, source);
            self.end(&error);
            error
        })
    }

    pub(super) fn tensor_error(&self, op: &str, source: TensorError) -> BaselineError {
        BaselineError::Tensor { baseline: self.name.clone(), op: op.to_owned(), source }
    }

    /// An answer that contradicts itself or what is known; the worker is not used again.
    pub(super) fn inconsistent(&mut self, op: &str, what: String) -> BaselineError {
        let error =
            BaselineError::Inconsistent { baseline: self.name.clone(), op: op.to_owned(), what };
        self.end(&error);
        error
    }

    /// Asks for an operation and waits for the answer, at most `limit` or the usual time.
    ///
    /// # Errors
    /// If the worker has no such operation, refuses it, ends, answers too late or with nonsense.
    pub fn call<T: DeserializeOwned>(
        &mut self,
        op: &str,
        arguments: Value,
        limit: Option<Duration>,
    ) -> Result<Answer<T>, BaselineError> {
        if let Some(after) = &self.ended {
            let (baseline, after) = (self.name.clone(), after.clone());
            return Err(BaselineError::Unusable { baseline, after });
        }
        if !self.hello.operations.iter().any(|known| known == op) {
            return Err(BaselineError::Unsupported {
                baseline: self.name.clone(),
                op: op.to_owned(),
                why: format!("it has {}", self.hello.operations.join(", ")),
            });
        }
        let id = self.next;
        self.next += 1;
        let mut line = serde_json::to_vec(&Request { id, op, arguments }).map_err(|error| {
            BaselineError::Inconsistent {
                baseline: self.name.clone(),
                op: op.to_owned(),
                what: format!("nothing: the request can't be written: {error}"),
            }
        })?;
        line.push(b'\n');
        let start = Instant::now();
        if let Some(requests) = &self.requests {
            // A writer that is gone means a worker that is gone: reading tells.
            let _ = requests.send(line);
        }
        let answer = self.line(op, limit.unwrap_or(self.limits.operation))?;
        let round_trip_s = start.elapsed().as_secs_f64();
        let response: Response = serde_json::from_slice(&answer)
            .map_err(|error| self.malformed(op, &format!("is no answer ({error})"), &answer))?;
        if response.id != id {
            let why = format!("answers request {}, not {id}", response.id);
            return Err(self.malformed(op, &why, &answer));
        }
        match (response.ok, response.error) {
            (Some(value), None) => {
                let value = serde_json::from_value(value).map_err(|error| {
                    self.malformed(op, &format!("lacks what was asked for ({error})"), &answer)
                })?;
                Ok(Answer { value, round_trip_s })
            }
            (None, Some(error)) if error.kind == "unsupported" => Err(BaselineError::Unsupported {
                baseline: self.name.clone(),
                op: op.to_owned(),
                why: error.message,
            }),
            (None, Some(error)) => Err(BaselineError::Refused {
                baseline: self.name.clone(),
                op: op.to_owned(),
                kind: error.kind,
                message: error.message,
            }),
            _ => Err(self.malformed(op, "has not exactly one of `ok` and `error`", &answer)),
        }
    }

    /// The next line.
    fn line(&mut self, op: &str, limit: Duration) -> Result<Vec<u8>, BaselineError> {
        let (baseline, op) = (self.name.clone(), op.to_owned());
        let start = Instant::now();
        let mut exited = false;
        let received = loop {
            let left = limit.saturating_sub(start.elapsed());
            match self.lines.recv_timeout(left.min(GLANCE)) {
                // Children of a worker that has ended may keep its pipe open.
                Err(RecvTimeoutError::Timeout) if exited => {
                    break Err(RecvTimeoutError::Disconnected);
                }
                Err(RecvTimeoutError::Timeout) if left > GLANCE => {
                    exited = matches!(self.child.try_wait(), Ok(Some(_)));
                }
                received => break received,
            }
        };
        match received {
            Ok(Line::Whole(line)) => Ok(line),
            Ok(Line::TooLong(start)) => {
                let why = format!("has more than {LONGEST_LINE} bytes");
                Err(self.malformed(&op, &why, &start))
            }
            Err(RecvTimeoutError::Timeout) => {
                let ended = self.stop();
                let error = BaselineError::Timeout { baseline, op, limit, ended };
                self.ended = Some(error.to_string());
                Err(error)
            }
            Err(RecvTimeoutError::Disconnected) => {
                let ended = self.leave();
                let error = BaselineError::Died { baseline, op, ended };
                self.ended = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn malformed(&mut self, op: &str, why: &str, line: &[u8]) -> BaselineError {
        let text = String::from_utf8_lossy(line);
        let clipped: String = text.trim_end().chars().take(200).collect();
        let error = BaselineError::Malformed {
            baseline: self.name.clone(),
            op: op.to_owned(),
            why: why.to_owned(),
            line: format!("{clipped:?}"),
            ended: self.stop(),
        };
        self.ended = Some(error.to_string());
        error
    }

    fn end(&mut self, error: &BaselineError) {
        self.stop();
        self.ended = Some(error.to_string());
    }

    /// Lets it leave by itself, then ends it.
    fn leave(&mut self) -> Ended {
        self.requests = None;
        let start = Instant::now();
        while start.elapsed() < LEAVE {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(status)) => return self.last_words(Some(status.to_string())),
                Err(_) => break,
            }
        }
        self.stop()
    }

    /// Ends it now.
    fn stop(&mut self) -> Ended {
        self.requests = None;
        // It may have ended meanwhile.
        let _ = self.child.kill();
        let status = self.child.wait().ok().map(|status| status.to_string());
        self.last_words(status)
    }

    fn last_words(&self, status: Option<String>) -> Ended {
        // The thread that reads stderr may be a moment behind the process's end.
        std::thread::sleep(Duration::from_millis(20));
        let lines = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        Ended { status, stderr: lines.iter().cloned().collect() }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.leave();
        }
    }
}

fn write_requests(mut input: ChildStdin, requests: &Receiver<Vec<u8>>) {
    while let Ok(line) = requests.recv() {
        if input.write_all(&line).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

fn read_lines(output: ChildStdout, mut each: impl FnMut(Line) -> bool) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let longest = LONGEST_LINE as u64 + 1;
        match output.by_ref().take(longest).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if line.last() == Some(&b'\n') => {
                if !each(Line::Whole(line)) {
                    return;
                }
            }
            Ok(_) if line.len() > LONGEST_LINE => {
                line.truncate(400);
                each(Line::TooLong(line));
                return;
            }
            // The process ended within a line: what there is of it is shown as malformed.
            Ok(_) => {
                each(Line::Whole(line));
                return;
            }
        }
    }
}

fn keep_last_lines(errors: ChildStderr, kept: &Mutex<VecDeque<String>>) {
    let mut errors = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        match errors.by_ref().take(64 << 10).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text: String = text.trim_end().chars().take(STDERR_WIDTH).collect();
                if text.is_empty() {
                    continue;
                }
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == STDERR_LINES {
                    kept.pop_front();
                }
                kept.push_back(text);
            }
        }
    }
}

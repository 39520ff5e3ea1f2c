//! The process that times the other libraries.

use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a peer is asked to do.
#[derive(Clone, Debug)]
pub struct Request<'r> {
    /// The library.
    pub peer: &'r str,
    /// What to compute.
    pub case: &'r str,
    /// Its size: rows and columns, or tokens and nothing.
    pub size: [usize; 2],
    /// The model's file, for cases of models.
    pub model: Option<&'r Path>,
    /// How often.
    pub repeats: usize,
}

/// The process.
pub struct Peers {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The versions of what it has.
    pub versions: Value,
}

impl Peers {
    /// Starts `script` with `python`; libraries use `threads` threads.
    ///
    /// # Errors
    /// If it can't be started, or ends.
    pub fn start(python: &str, script: &Path, threads: usize) -> anyhow::Result<Peers> {
        let mut child = Command::new(python)
            .arg(script)
            .env("METILE_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {python} {}", script.display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the peers' process has no pipes");
        };
        let mut peers =
            Peers { child, input, output: BufReader::new(output), versions: Value::Null };
        peers.versions = peers.answer()?["versions"].take();
        Ok(peers)
    }

    fn answer(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the peers' process ended; its message is above");
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Seconds of each repeat, or why the peer can't do it.
    ///
    /// # Errors
    /// If the process ends or talks nonsense.
    pub fn time(&mut self, request: &Request<'_>) -> anyhow::Result<Result<Vec<f64>, String>> {
        let Request { peer, case, size: [rows, cols], model, repeats } = request;
        let request = json!({
            "peer": peer, "case": case, "rows": rows, "cols": cols, "model": model, "repeats": repeats,
        });
        writeln!(self.input, "{request}").context("the peers' process ended")?;
        self.input.flush()?;
        let answer = self.answer()?;
        if let Some(why) = answer["error"].as_str() {
            return Ok(Err(why.to_owned()));
        }
        let seconds = answer["seconds"].as_array().context("an answer without seconds")?;
        Ok(Ok(seconds.iter().filter_map(Value::as_f64).collect()))
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // It may have ended by itself; nothing is lost either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

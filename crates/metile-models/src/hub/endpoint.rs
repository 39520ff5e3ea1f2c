//! Requests to a server that speaks as huggingface.co does.

use std::io::Read;
use std::time::Duration;

use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::{Agent, Body};

use super::{ModelId, cache::REVISION, fail, is_plain_name};
use crate::Error;

const CONNECT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(60);
/// A body slower than this, in bytes a second, is given up: the next download goes on from there.
const SLOWEST: u64 = 16 << 10;
/// The most bytes of a list of files.
const LIST_LIMIT: u64 = 16 << 20;
const REDIRECTS: u32 = 5;

pub(super) struct Endpoint<'a> {
    address: &'a str,
    token: Option<&'a str>,
    repository: String,
    /// Gives redirects back, so that headers about the file itself are seen.
    direct: Agent,
    following: Agent,
}

/// What a repository holds.
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<String>,
}

/// What the server says of a file before it is fetched.
pub(super) struct FileInfo {
    /// The content's hash as the server gives it, which names the blob.
    pub(super) etag: String,
    pub(super) bytes: u64,
}

impl<'a> Endpoint<'a> {
    pub(super) fn new(address: &'a str, token: Option<&'a str>, model: &ModelId) -> Endpoint<'a> {
        let agent = |redirects| {
            let config = Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(redirects)
                .max_redirects_will_error(false)
                .timeout_connect(Some(CONNECT))
                .timeout_recv_response(Some(ANSWER))
                .user_agent(concat!("metile/", env!("CARGO_PKG_VERSION")));
            Agent::new_with_config(config.build())
        };
        let repository = model.repository();
        Endpoint { address, token, repository, direct: agent(0), following: agent(REDIRECTS) }
    }

    fn fail(&self, problem: impl Into<String>) -> Error {
        fail(&self.repository, problem)
    }

    /// The address of `file` at `commit`.
    fn file_address(&self, commit: &str, file: &str) -> String {
        format!("{}/{}/resolve/{commit}/{file}", self.address, self.repository)
    }

    /// The files of the revision that ids without one mean.
    pub(super) fn list(&self) -> Result<Listing, Error> {
        #[derive(serde::Deserialize)]
        struct Raw {
            sha: String,
            siblings: Vec<Sibling>,
        }
        #[derive(serde::Deserialize)]
        struct Sibling {
            rfilename: String,
        }
        let address =
            format!("{}/api/models/{}/revision/{REVISION}", self.address, self.repository);
        let mut response = self.get(&address, None, LIST_LIMIT)?;
        self.check_status(response.status(), &address)?;
        let mut bytes = Vec::new();
        let read = response.body_mut().as_reader().take(LIST_LIMIT).read_to_end(&mut bytes);
        read.map_err(|error| self.fail(format!("{address}: {error}")))?;
        let raw: Raw = serde_json::from_slice(&bytes).map_err(|error| {
            self.fail(format!("{address} does not answer with a list of files: {error}"))
        })?;
        if !is_plain_name(&raw.sha) {
            return Err(self.fail(format!("{address} gives `{}` as its revision", raw.sha)));
        }
        let files = raw.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
        Ok(Listing { commit: raw.sha, files })
    }

    /// What the server says of `file`, from the answer that it gives before it redirects to where the
    /// content lies.
    pub(super) fn info(&self, commit: &str, file: &str) -> Result<FileInfo, Error> {
        let mut address = self.file_address(commit, file);
        for _ in 0..=REDIRECTS {
            let mut request = self.direct.head(&address);
            if let Some(token) = self.token {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            let response = request.call().map_err(|error| self.no_answer(&address, &error))?;
            let headers = response.headers();
            let linked = text(headers, "x-linked-etag");
            let location = text(headers, "location").filter(|to| to.starts_with('/'));
            if response.status().is_redirection() && linked.is_none() {
                // A repository under a new name; on the same server, so the token may go along.
                let to = location.ok_or_else(|| {
                    self.fail(format!("{address} redirects without saying what the file is"))
                })?;
                address = format!("{}{to}", self.address);
                continue;
            }
            if !response.status().is_redirection() {
                self.check_status(response.status(), &address)?;
            }
            let etag = linked.or_else(|| text(headers, "etag")).map(plain_etag);
            let etag = etag.filter(|etag| is_plain_name(etag)).ok_or_else(|| {
                self.fail(format!(
                    "{address}: the answer has no usable ETag to know the content by"
                ))
            })?;
            let bytes = text(headers, "x-linked-size").or_else(|| text(headers, "content-length"));
            let bytes = bytes.and_then(|bytes| bytes.parse().ok()).ok_or_else(|| {
                self.fail(format!("{address}: the answer does not say how many bytes the file has"))
            })?;
            return Ok(FileInfo { etag: etag.to_owned(), bytes });
        }
        Err(self.fail(format!("{address}: more than {REDIRECTS} redirects")))
    }

    /// The content of `file` from byte `from` on, and where it really starts: 0 if the server does not
    /// give parts.
    pub(super) fn content(
        &self,
        commit: &str,
        file: &str,
        from: u64,
        total: u64,
    ) -> Result<(u64, Response<Body>), Error> {
        let address = self.file_address(commit, file);
        let range = (from > 0).then(|| format!("bytes={from}-"));
        let response = self.get(&address, range.as_deref(), total - from)?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if from > 0 => {
                let range = text(response.headers(), "content-range").unwrap_or_default();
                if range.strip_prefix(&format!("bytes {from}-")).is_none() {
                    let problem = format!(
                        "{address}: asked for bytes from {from} on, it answers with `{range}`"
                    );
                    return Err(self.fail(problem));
                }
                Ok((from, response))
            }
            StatusCode::OK => Ok((0, response)),
            status => {
                self.check_status(status, &address)?;
                Err(self.fail(format!("{address} answers with status {status}")))
            }
        }
    }

    fn get(&self, address: &str, range: Option<&str>, most: u64) -> Result<Response<Body>, Error> {
        let whole = ANSWER + Duration::from_secs(most / SLOWEST);
        let mut request = self.following.get(address);
        if let Some(token) = self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(range) = range {
            request = request.header("Range", range);
        }
        let request = request.config().timeout_recv_body(Some(whole)).build();
        request.call().map_err(|error| self.no_answer(address, &error))
    }

    fn no_answer(&self, address: &str, error: &ureq::Error) -> Error {
        self.fail(format!("{address}: {error}"))
    }

    fn check_status(&self, status: StatusCode, address: &str) -> Result<(), Error> {
        if status.is_success() {
            return Ok(());
        }
        Err(self.fail(match status.as_u16() {
            404 => format!("{address} does not exist (status 404)"),
            401 | 403 => format!(
                "{address} is not open to you (status {status}): the id is wrong, or the model \
                 needs an access token in HF_TOKEN"
            ),
            _ => format!("{address} answers with status {status}"),
        }))
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// An ETag without quotes and without the mark of weak ones.
fn plain_etag(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

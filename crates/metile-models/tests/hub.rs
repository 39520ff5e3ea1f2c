//! Models by id: from the cache, and from a server on this machine that behaves, or does not.

mod toy;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use metile_models::checkpoint::Checkpoint;
use metile_models::hub::{Download, Hub};
use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A file that the server has.
#[derive(Clone)]
struct Served {
    content: Vec<u8>,
    etag: String,
    /// Large files are announced with a redirect to another place.
    large: bool,
    /// The connection breaks after so many bytes, once.
    breaks_after: Option<usize>,
}

#[derive(Default)]
struct State {
    files: HashMap<String, Served>,
    /// Listed, whether they are there or not.
    listed: Vec<String>,
    requests: Vec<String>,
    ignores_ranges: bool,
    status: Option<u16>,
}

/// A server that answers as huggingface.co does, for the model `org/toy`.
#[derive(Clone)]
struct Server {
    address: String,
    state: Arc<Mutex<State>>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Server { address, state: Arc::default() };
        let shared = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        server
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> &Server {
        change(&mut self.state.lock().unwrap());
        self
    }

    /// Adds a file, large ones known by their SHA-256, others by Git's SHA-1.
    fn file(&self, name: &str, content: &[u8], large: bool) -> &Server {
        let etag = if large {
            hex(&Sha256::digest(content))
        } else {
            let start = Sha1::new().chain_update(format!("blob {}\0", content.len()));
            hex(&start.chain_update(content).finalize())
        };
        let served = Served { content: content.to_vec(), etag, large, breaks_after: None };
        self.change(|state| {
            state.files.insert(name.to_owned(), served);
            state.listed.push(name.to_owned());
        })
    }

    /// The toy model.
    fn with_model(&self) -> &Server {
        let config = toy::with(toy::config("llama"), json!({"tie_word_embeddings": true}));
        let weights = toy::safetensors(&toy::tensors("llama", 16));
        self.file("config.json", config.to_string().as_bytes(), false)
            .file("model.safetensors", &weights, true)
            .file("README.md", b"not needed", false)
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
            let mut range = None;
            loop {
                let mut header = String::new();
                reader
                    .read_line(&mut header)
                    .ok()
                    .filter(|&read| read > 2)
                    .or_else(|| (header == "\r\n").then_some(2))?;
                if header == "\r\n" {
                    break;
                }
                let header = header.trim().to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("range: bytes=") {
                    range = value.trim_end_matches('-').parse::<usize>().ok();
                }
            }
            let mut words = line.split(' ');
            let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
            self.answer(&stream, &method, &path, range)?;
        }
    }

    fn answer(
        &self,
        mut out: &TcpStream,
        method: &str,
        path: &str,
        range: Option<usize>,
    ) -> Option<()> {
        let mut state = self.state.lock().unwrap();
        let shown = range.map(|from| format!(" from {from}")).unwrap_or_default();
        state.requests.push(format!("{method} {path}{shown}"));
        let mut respond = |status: &str, headers: &str, body: &[u8]| {
            let length = body.len();
            write!(out, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n").ok()?;
            if method != "HEAD" { out.write_all(body).ok() } else { Some(()) }
        };
        if let Some(status) = state.status {
            return respond(&format!("{status} X"), "", b"");
        }
        if path == "/api/models/org/toy/revision/main" {
            let siblings: Vec<_> = state.listed.iter().map(|n| json!({"rfilename": n})).collect();
            let body = json!({"sha": COMMIT, "siblings": siblings}).to_string();
            return respond("200 OK", "", body.as_bytes());
        }
        let ignores = state.ignores_ranges;
        let name = path.strip_prefix(&format!("/org/toy/resolve/{COMMIT}/"));
        let elsewhere = path.strip_prefix("/elsewhere/");
        let Some(file) = name.or(elsewhere).and_then(|name| state.files.get_mut(name)) else {
            return respond("404 Not Found", "", b"Entry not found");
        };
        if file.large && elsewhere.is_none() {
            let (etag, size) = (&file.etag, file.content.len());
            let headers = format!(
                "X-Linked-Etag: \"{etag}\"\r\nX-Linked-Size: {size}\r\nETag: \"other\"\r\nLocation: /elsewhere/{}\r\n",
                name?
            );
            return respond("302 Found", &headers, b"moved");
        }
        if method == "HEAD" {
            let headers = format!("ETag: W/\"{}\"\r\n", file.etag);
            return respond("200 OK", &headers, &file.content);
        }
        let from = if ignores { 0 } else { range.unwrap_or(0) };
        let body = &file.content[from..];
        let (status, headers) = if from > 0 {
            let last = file.content.len() - 1;
            ("206 Partial Content", format!("Content-Range: bytes {from}-{last}/{}\r\n", last + 1))
        } else {
            ("200 OK", String::new())
        };
        if let Some(after) = file.breaks_after.take() {
            write!(out, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len())
                .ok()?;
            out.write_all(&body[..after]).ok()?;
            out.shutdown(std::net::Shutdown::Both).ok()?;
            return None;
        }
        respond(status, &headers, body)
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

fn hub(server: &Server, cache: &Path) -> Hub {
    Hub::new(cache, &server.address)
}

fn fetch(hub: &Hub, id: &str) -> Result<std::path::PathBuf, String> {
    hub.resolve(id, Download::Yes(&mut |_| ())).map_err(|error| error.to_string())
}

#[test]
fn a_model_is_fetched_once_and_only_when_asked() {
    let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
    server.with_model();
    let hub = hub(&server, cache.path());
    let error = hub.resolve("org/toy", Download::No).unwrap_err().to_string();
    assert!(error.contains("not in the cache") && error.contains("--download"), "{error}");
    assert!(server.requests().is_empty());

    let mut seen: Vec<(String, u64, u64)> = Vec::new();
    let mut progress =
        |p: metile_models::hub::Progress<'_>| seen.push((p.file.to_owned(), p.done, p.total));
    let folder = hub.resolve("org/toy", Download::Yes(&mut progress)).unwrap();
    assert_eq!(Checkpoint::open(&folder).unwrap().config().layers, 1);
    assert!(!folder.join("README.md").exists());
    for name in ["config.json", "model.safetensors"] {
        let of: Vec<_> = seen.iter().filter(|(file, ..)| file == name).collect();
        assert!(of.is_sorted_by_key(|(_, done, _)| *done));
        let last = of.last().unwrap();
        assert_eq!(last.1, last.2);
    }
    // The layout of Hugging Face's own tools.
    let root = cache.path().join("models--org--toy");
    assert_eq!(std::fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(folder, root.join("snapshots").join(COMMIT));
    #[cfg(unix)]
    assert!(std::fs::read_link(folder.join("config.json")).unwrap().starts_with("../../blobs"));

    server.requests();
    assert_eq!(hub.resolve("org/toy", Download::No).unwrap(), folder);
    assert_eq!(fetch(&hub, "org/toy").unwrap(), folder);
    assert!(server.requests().is_empty());
}

#[test]
fn a_broken_download_goes_on_where_it_ended() {
    let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
    server.with_model().change(|state| {
        state.files.get_mut("model.safetensors").unwrap().breaks_after = Some(10_000);
    });
    let hub = hub(&server, cache.path());
    let error = fetch(&hub, "org/toy").unwrap_err();
    assert!(error.contains("model.safetensors broke off after 10000 of"), "{error}");
    assert!(hub.resolve("org/toy", Download::No).is_err());
    server.requests();
    let mut least = u64::MAX;
    let mut progress = |p: metile_models::hub::Progress<'_>| {
        if p.file == "model.safetensors" {
            least = least.min(p.done);
        }
    };
    let folder = hub.resolve("org/toy", Download::Yes(&mut progress)).unwrap();
    assert_eq!(least, 10_000);
    let requests = server.requests();
    assert!(
        requests.contains(&"GET /elsewhere/model.safetensors from 10000".to_owned()),
        "{requests:?}"
    );
    assert!(
        !requests.iter().any(|r| r.starts_with("GET") && r.ends_with("config.json")),
        "{requests:?}"
    );
    Checkpoint::open(&folder).unwrap();
}

#[test]
fn a_server_without_ranges_is_asked_from_the_start() {
    let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
    server.with_model().change(|state| {
        state.ignores_ranges = true;
        state.files.get_mut("model.safetensors").unwrap().breaks_after = Some(999);
    });
    let hub = hub(&server, cache.path());
    assert!(fetch(&hub, "org/toy").is_err());
    Checkpoint::open(&fetch(&hub, "org/toy").unwrap()).unwrap();
}

#[test]
fn content_with_another_hash_is_refused_and_not_kept() {
    for name in ["model.safetensors", "config.json"] {
        let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
        server.with_model().change(|state| {
            let content = &mut state.files.get_mut(name).unwrap().content;
            *content.last_mut().unwrap() ^= 1;
        });
        let hub = hub(&server, cache.path());
        let error = fetch(&hub, "org/toy").unwrap_err();
        assert!(error.contains(name) && error.contains("not what the server announced"), "{error}");
        let blobs = cache.path().join("models--org--toy/blobs");
        let left = std::fs::read_dir(blobs).unwrap().flatten();
        assert!(
            left.into_iter().all(|entry| !entry.path().to_string_lossy().contains("incomplete"))
        );
        assert!(hub.resolve("org/toy", Download::No).is_err());
    }
}

#[test]
fn what_is_not_there_or_not_open_is_said() {
    let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
    server.with_model();
    let hub = hub(&server, cache.path());
    let error = fetch(&hub, "org/other").unwrap_err();
    assert!(error.contains("org/other") && error.contains("status 404"), "{error}");
    server.change(|state| drop(state.files.remove("model.safetensors")));
    let error = fetch(&hub, "org/toy").unwrap_err();
    assert!(error.contains("model.safetensors does not exist (status 404)"), "{error}");
    for (status, part) in [(401, "HF_TOKEN"), (403, "HF_TOKEN"), (500, "status 500")] {
        server.change(|state| state.status = Some(status));
        let error = fetch(&hub, "org/toy").unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let nobody = Hub::new(cache.path(), "http://127.0.0.1:9");
    assert!(fetch(&nobody, "org/toy").unwrap_err().contains("127.0.0.1:9"));
}

#[test]
fn names_never_lead_out_of_the_cache() {
    let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
    server.with_model().change(|state| {
        state.listed.extend(
            ["../evil.safetensors", "a/b.safetensors", ".hidden.safetensors"].map(str::to_owned),
        );
    });
    let hub = hub(&server, cache.path());
    fetch(&hub, "org/toy").unwrap();
    assert!(
        server
            .requests()
            .iter()
            .all(|request| !request.contains("evil") && !request.contains("a/b"))
    );
    for id in [
        "",
        "toy",
        "a/b/c/d",
        "../x",
        "org/..",
        "org/a b",
        "org/x/../y.gguf",
        "org/toy/x.bin",
        "/toy",
        "org/",
    ] {
        let error = fetch(&hub, id).unwrap_err();
        assert!(error.contains(&format!("model `{id}`")), "{error}");
    }
    let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
    server.with_model().change(|state| {
        state.files.get_mut("config.json").unwrap().etag = "../../../evil".to_owned();
    });
    let error = fetch(&Hub::new(cache.path(), &server.address), "org/toy").unwrap_err();
    assert!(error.contains("no usable ETag"), "{error}");
}

#[test]
fn one_of_several_gguf_files_is_named_in_the_id() {
    let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
    let model = toy::gguf_model("llama", 16).build();
    server.file("a.gguf", &model, true).file("b.gguf", &model, true);
    let hub = hub(&server, cache.path());
    assert!(fetch(&hub, "org/toy").unwrap_err().contains("a.gguf, b.gguf"));
    let path = fetch(&hub, "org/toy/b.gguf").unwrap();
    assert!(path.ends_with("b.gguf"));
    Checkpoint::open(&path).unwrap();
    assert!(fetch(&hub, "org/toy/c.gguf").unwrap_err().contains("no file `c.gguf`"));
}

#[test]
fn the_environment_says_where_models_are() {
    let from = |set: &[(&str, &str)]| {
        let set: HashMap<&str, &str> = set.iter().copied().collect();
        Hub::from_variables(|name| set.get(name).map(Into::into))
    };
    for (set, folder) in [
        (&[("HOME", "/h")][..], "/h/.cache/huggingface/hub"),
        (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
        (&[("HOME", "/h"), ("HF_HOME", "/f")], "/f/hub"),
        (&[("HF_HOME", "/f"), ("HF_HUB_CACHE", "/c")], "/c"),
        (&[("HOME", "/h"), ("HF_HOME", "")], "/h/.cache/huggingface/hub"),
    ] {
        assert_eq!(from(set).unwrap().cache(), Path::new(folder));
    }
    assert!(from(&[]).unwrap_err().to_string().contains("HF_HOME"));

    let (server, cache) = (Server::start(), tempfile::tempdir().unwrap());
    server.with_model();
    let folder = cache.path().to_str().unwrap();
    let set = [("HF_HUB_CACHE", folder), ("HF_ENDPOINT", server.address.as_str())];
    let offline = from(&[&set[..], &[("HF_HUB_OFFLINE", "1")]].concat()).unwrap();
    assert!(fetch(&offline, "org/toy").unwrap_err().contains("HF_HUB_OFFLINE"));
    fetch(&from(&set).unwrap(), "org/toy").unwrap();
}

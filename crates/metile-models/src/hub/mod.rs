//! Models by their Hugging Face id: from the local cache that Hugging Face's own tools share, and over
//! the network only when asked.

mod cache;
mod endpoint;
mod fetch;
mod verify;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::Error;
use cache::Repository;
use endpoint::Endpoint;

/// Whether files may be fetched.
pub enum Download<'a> {
    /// Only what is in the cache.
    No,
    /// What the cache lacks is fetched; the function is called as bytes come in.
    Yes(&'a mut dyn FnMut(Progress<'_>)),
}

/// How far one file's download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file's name in the repository.
    pub file: &'a str,
    /// Bytes that are here, those of an earlier, broken download included.
    pub done: u64,
    /// Bytes of the file.
    pub total: u64,
}

/// A model on the hub: `organization/name`, or `organization/name/FILE.gguf` for one of several GGUF
/// files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelId {
    organization: String,
    name: String,
    file: Option<String>,
}

impl ModelId {
    fn parse(id: &str) -> Result<ModelId, Error> {
        let parts: Vec<&str> = id.split('/').collect();
        let (organization, name, file) = match parts[..] {
            [organization, name] => (organization, name, None),
            [organization, name, file] => (organization, name, Some(file)),
            _ => {
                return Err(fail(
                    id,
                    "an id is `organization/name`, or `organization/name/FILE.gguf`",
                ));
            }
        };
        if let Some(odd) = parts.iter().find(|part| !is_plain_name(part)) {
            let problem = format!("`{odd}` is no name: letters, digits, `-`, `_` and `.` make one");
            return Err(fail(id, problem));
        }
        if file.is_some_and(|file| !file.ends_with(".gguf")) {
            return Err(fail(id, "the file's name does not end with .gguf"));
        }
        let file = file.map(str::to_owned);
        Ok(ModelId { organization: organization.to_owned(), name: name.to_owned(), file })
    }

    /// `organization/name`.
    fn repository(&self) -> String {
        format!("{}/{}", self.organization, self.name)
    }
}

/// A name that is safe as one part of a path and of an address.
fn is_plain_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=255).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.')
}

fn fail(id: &str, problem: impl Into<String>) -> Error {
    Error::Hub { id: id.to_owned(), problem: problem.into() }
}

/// Where models are kept, and where they come from.
#[derive(Clone, Debug)]
pub struct Hub {
    cache: PathBuf,
    endpoint: String,
    token: Option<String>,
    offline: bool,
}

impl Hub {
    /// With models in the folder `cache`, from the server at `endpoint`, as `https://huggingface.co`.
    pub fn new(cache: impl Into<PathBuf>, endpoint: impl Into<String>) -> Hub {
        let endpoint = endpoint.into().trim_end_matches('/').to_owned();
        Hub { cache: cache.into(), endpoint, token: None, offline: false }
    }

    /// As the environment says, in Hugging Face's variables: the cache in `HF_HUB_CACHE`, or `hub` in
    /// `HF_HOME`, or `huggingface/hub` in `XDG_CACHE_HOME` or `~/.cache`; the server in `HF_ENDPOINT`;
    /// the access token in `HF_TOKEN`; no network with `HF_HUB_OFFLINE`.
    ///
    /// # Errors
    /// If nothing says where the cache is.
    pub fn from_environment() -> Result<Hub, Error> {
        Hub::from_variables(|name| std::env::var_os(name))
    }

    /// As [`Hub::from_environment`], with `variable` for the environment.
    ///
    /// # Errors
    /// As of [`Hub::from_environment`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Hub, Error> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let folder = |name: &str| set(name).map(PathBuf::from);
        let text = |name: &str| set(name).and_then(|value| value.into_string().ok());
        let home = || folder("HOME").or(folder("USERPROFILE")).map(|home| home.join(".cache"));
        let cache = folder("HF_HUB_CACHE")
            .or_else(|| folder("HF_HOME").map(|home| home.join("hub")))
            .or_else(|| {
                let caches = folder("XDG_CACHE_HOME").or_else(home);
                caches.map(|caches| caches.join("huggingface").join("hub"))
            });
        let cache = cache.ok_or_else(|| {
            fail(
                "",
                "neither HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME nor HOME says where models are kept",
            )
        })?;
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        let offline = text("HF_HUB_OFFLINE").is_some_and(|value| {
            ["1", "on", "true", "yes"].contains(&value.to_ascii_lowercase().as_str())
        });
        Ok(Hub { token: text("HF_TOKEN"), offline, ..Hub::new(cache, endpoint) })
    }

    /// The folder with the model's files, or the one GGUF file that `id` names. Nothing is fetched if
    /// the cache has it all.
    ///
    /// # Errors
    /// If `id` is no id; if the cache lacks the model and nothing may be fetched; if the server does
    /// not have it, breaks off, or sends something else than it announced. What was fetched before a
    /// break stays, and the next download goes on from there.
    pub fn resolve(&self, id: &str, download: Download<'_>) -> Result<PathBuf, Error> {
        let model = ModelId::parse(id)?;
        let repository = Repository::new(&self.cache, &model);
        let lacking = match repository.local(&model) {
            Ok(path) => return Ok(path),
            Err(lacking) => lacking,
        };
        let Download::Yes(progress) = download else {
            let problem = format!("{lacking}; it is fetched only with --download");
            return Err(fail(id, problem));
        };
        if self.offline {
            return Err(fail(id, format!("{lacking}, and HF_HUB_OFFLINE forbids the network")));
        }
        let endpoint = Endpoint::new(&self.endpoint, self.token.as_deref(), &model);
        fetch::model(&endpoint, &repository, &model, progress)?;
        repository.local(&model).map_err(|lacking| fail(id, lacking))
    }

    /// The folder that models are kept in.
    pub fn cache(&self) -> &Path {
        &self.cache
    }
}

/// [`Hub::resolve`] with the hub that the environment says.
///
/// # Errors
/// As of [`Hub::resolve`] and [`Hub::from_environment`].
pub fn resolve(id: &str, download: Download<'_>) -> Result<PathBuf, Error> {
    Hub::from_environment()?.resolve(id, download)
}

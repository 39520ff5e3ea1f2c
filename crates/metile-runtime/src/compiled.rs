//! Kernels compiled once and kept.

use crate::error::Error;
use metile_compiler::cpu::{self, Form};
use metile_compiler::gpu::{self, Class, Target};
use metile_compiler::{Dump, Optimized, Options, optimize};
use metile_device::Limits;
use metile_ir::tile::{Kernel, Precision, verify};
use metile_lang::kernel::{CompileError, Definition};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What GPUs run, by target and classes of arguments.
type Programs = HashMap<(Target, Vec<Class>), Arc<metile_device::Verified>>;

/// A kernel, from its trace to what devices run.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The program as it was traced.
    pub traced: Kernel,
    /// After the passes.
    pub optimized: Optimized,
    form: OnceLock<Arc<Form>>,
    programs: Mutex<Programs>,
}

/// Kernels of this process, by what their definitions are. A program has as many as it names, so
/// nothing is thrown away.
type Cache = Mutex<HashMap<(TypeId, Precision), Arc<Compiled>>>;

fn cache() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(Cache::default)
}

impl Compiled {
    /// The kernel that `definition` is: traced, verified and optimized, or found where it was kept.
    pub fn new(definition: &Definition, precision: Precision) -> Result<Arc<Compiled>, Error> {
        let name = definition.info().name;
        let dump = Dump::from_env()
            .map_err(|e| Error::Call { kernel: name.to_owned(), message: e.to_string() })?;
        // Stages are shown every time they are asked for.
        let key = definition.identity().filter(|_| dump == Dump::none()).map(|i| (i, precision));
        let kept = || cache().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = key.and_then(|key| kept().get(&key).cloned()) {
            return Ok(known);
        }
        let mut kernel = definition.trace()?;
        kernel.precision = precision;
        let traced = kernel.clone();
        let files = kernel.files.clone();
        let verified =
            verify::verify(kernel).map_err(|diagnostics| CompileError { diagnostics, files })?;
        let options = Options { dump, ..Options::default() };
        let optimized = optimize(verified, &options)
            .map_err(|e| Error::Internal { kernel: name.to_owned(), message: e.to_string() })?;
        let compiled = Arc::new(Compiled {
            traced,
            optimized,
            form: OnceLock::new(),
            programs: Mutex::default(),
        });
        if let Some(key) = key {
            kept().insert(key, compiled.clone());
        }
        Ok(compiled)
    }

    /// What a GPU runs for arguments of these classes.
    ///
    /// # Errors
    /// What the target can't do, at its line.
    pub fn program(
        &self,
        target: &Target,
        classes: Vec<Class>,
    ) -> Result<Arc<metile_device::Verified>, Error> {
        let kept = || self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (*target, classes);
        if let Some(program) = kept().get(&key) {
            return Ok(program.clone());
        }
        let program = gpu::lower(&self.optimized.kernel, target, &key.1).map_err(|diagnostic| {
            CompileError { diagnostics: vec![*diagnostic], files: self.traced.files.clone() }
        })?;
        let limits = Limits { shared_bytes: target.shared_bytes, threads: target.threads };
        let program = Arc::new(metile_device::verify(program, &limits).map_err(|errors| {
            let message = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            Error::Internal { kernel: self.traced.name.clone(), message }
        })?);
        kept().insert(key, program.clone());
        Ok(program)
    }

    /// What the tile machine runs.
    pub fn form(&self) -> &Arc<Form> {
        self.form.get_or_init(|| Arc::new(cpu::lower(&self.optimized.kernel)))
    }
}

//! Launching.

use super::{MslError, compile};
use libloading::Library;
use metile_compiler::gpu::metal::Msl;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, PoisonError};

type Run = unsafe extern "C" fn(
    arguments: *const c_void,
    buffers: *const *mut c_void,
    groups: *const u32,
    threads: u32,
    shared_bytes: u32,
    seed: u64,
) -> *const c_char;

/// The most threadgroups on the first axis of a launch; more are laid out in rows.
const ROW: u64 = 1 << 20;

/// A kernel's Metal source, compiled for the CPU.
#[derive(Debug)]
pub struct Kernel {
    msl: Msl,
    run: Run,
    /// The library keeps its state in static variables.
    turn: Mutex<()>,
    _library: Library,
}

impl Kernel {
    /// Checks and compiles `msl`, or finds it in the user's cache folder.
    ///
    /// # Errors
    /// If there is no compiler, or it refuses the source.
    pub fn new(msl: Msl) -> Result<Kernel, MslError> {
        let library = compile::library(&msl)?;
        // SAFETY: the header defines the function with this signature.
        let run = unsafe { library.get::<Run>(b"metile_run\0") }
            .map(|run| *run)
            .map_err(|e| MslError::Run { kernel: msl.entry.clone(), message: e.to_string() })?;
        Ok(Kernel { msl, run, turn: Mutex::new(()), _library: library })
    }

    /// The source and what was said of it.
    pub fn msl(&self) -> &Msl {
        &self.msl
    }

    /// Runs `blocks` threadgroups. `words` are the program's; those that are pointers are addresses on this host.
    /// The order of threads, and what Apple leaves open, is drawn from `seed`.
    ///
    /// # Errors
    /// If threads wait for each other in vain, or something undefined happens.
    ///
    /// # Safety
    /// The memory that the kernel reaches through `words` is there, and nobody else uses it meanwhile.
    pub unsafe fn launch(&self, words: &[u64], blocks: u64, seed: u64) -> Result<(), MslError> {
        let kernel = &self.msl.entry;
        let word = |&n: &u32| words.get(n as usize).copied();
        let arguments: Option<Vec<u64>> =
            std::iter::once(Some(blocks)).chain(self.msl.arguments.iter().map(word)).collect();
        let buffers: Option<Vec<*mut c_void>> = self
            .msl
            .buffers
            .iter()
            .map(|n| word(n).map(|at| std::ptr::with_exposed_provenance_mut(at as usize)))
            .collect();
        let (Some(arguments), Some(buffers)) = (arguments, buffers) else {
            let message = format!("{} words are too few", words.len());
            return Err(MslError::Launch { kernel: kernel.clone(), message });
        };
        if blocks == 0 {
            return Ok(());
        }
        // The last row may be longer than what is left: threadgroups beyond `blocks` leave at once.
        let row = blocks.min(ROW);
        let Ok(rows) = u32::try_from(blocks.div_ceil(row)) else {
            let message = format!("{blocks} threadgroups are too many");
            return Err(MslError::Launch { kernel: kernel.clone(), message });
        };
        let groups = [row as u32, rows, 1];
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: arguments and buffers are as the kernel's signature says, since both come from one `Msl`; the
        // caller answers for the memory behind them.
        let said = unsafe {
            (self.run)(
                arguments.as_ptr().cast(),
                buffers.as_ptr(),
                groups.as_ptr(),
                self.msl.threads,
                self.msl.shared_bytes,
                seed,
            )
        };
        if said.is_null() {
            return Ok(());
        }
        // SAFETY: what is said is a C string that lives until the next run, which waits for `_turn`.
        let message = unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned();
        Err(MslError::Run { kernel: kernel.clone(), message })
    }
}
